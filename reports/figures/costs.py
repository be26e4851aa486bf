"""Figure of score against cost (GPU- or CPU-seconds of a cell), with the Pareto front of configurations."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from contrastive.runs.recorded import Provenance
from reports.figures.canvas import BETTER, GREY, Figure, canvas, drawable, in_shown_unit, renamed, save, style, wrapped
from reports.markdown import heading
from reports.messages import Message, Text, _, joined
from reports.study import Results
from reports.tables import head

FEWEST, APART = 3, 1.1  # fewest points of a panel; least ratio of the highest to the lowest cost


@dataclass(frozen=True)
class Point:
    """A configuration: its mean score, and the mean cost of its cells."""

    label: str
    data: str
    device: Text  # "GPU-seconds" or "CPU-seconds"
    seconds: float
    score: float


def draw_costs(results: Results, path: Path) -> Figure | None:
    value, higher = main_value(results)
    points = configurations(results, value)
    kinds = dict.fromkeys((p.data, p.device) for p in points)
    panels = [[p for p in points if (p.data, p.device) == kind] for kind in kinds]
    panels = [panel for panel in panels if len(panel) >= FEWEST and apart(panel)]
    if not panels:
        return None
    fronts = [front(panel, higher) for panel in panels]
    with style():
        drawn = costs_figure(panels, fronts, value)
        return save(drawn, path.with_name(f"{path.name}-costs.svg"), costs_caption(panels, fronts, value))


def apart(panel: Sequence[Point]) -> bool:
    """Return whether costs differ enough for a trade-off."""
    seconds = [point.seconds for point in panel]
    return max(seconds) > APART * min(seconds)


def main_value(results: Results) -> tuple[str, bool]:
    """Return the first score of the report's tables with a better direction, and whether higher is better."""
    values = [value for section in results.study.sections for value in section.show.table.values]
    for value in values:
        if value in results.kinds and (higher := results.kinds[value].higher_is_better) is not None:
            return value, higher
    return values[0], True


def configurations(results: Results, value: str) -> list[Point]:
    """Return each configuration once, if all its seeds were measured and ran on one kind of device."""
    if value not in results.scores:
        return []
    scores = dict(results.scores[value])
    points: dict[tuple[str, ...], Point] = {}
    for row in (row for section in results.study.sections for row in section.rows):
        cells = tuple(row.cells)
        score = float(np.mean([scores.get(cell, np.nan) for cell in cells]))
        provenances = [provenance for cell in cells if (provenance := results.provenance(cell)) is not None]
        if np.isfinite(score) and len(provenances) == len(cells):
            costs = [device_seconds(provenance) for provenance in provenances]
            if len({device for device, _ in costs}) == 1:
                mean = float(np.mean([seconds for _, seconds in costs]))
                points.setdefault(cells, Point(row.label, row.data, costs[0][0], mean, score))
    return list(points.values())


def device_seconds(provenance: Provenance) -> tuple[Message, float]:
    """Return the GPU-seconds of all processes; without a GPU, the wall seconds times processes and threads."""
    processes = provenance.processes or 1
    if provenance.gpu_seconds > 0:
        return _("GPU-seconds"), provenance.gpu_seconds * processes
    return _("CPU-seconds"), provenance.wall_seconds * processes * (provenance.threads or 1)


def front(points: Sequence[Point], higher: bool) -> list[Point]:
    """Return the Pareto front, cheapest first: points better than all that cost no more."""
    best: list[Point] = []
    sign = 1 if higher else -1
    for point in sorted(points, key=lambda p: (p.seconds, -sign * p.score)):
        if not best or sign * point.score > sign * best[-1].score:
            best.append(point)
    return best


def costs_figure(panels: list[list[Point]], fronts: list[list[Point]], value: str) -> Any:
    named = [best_in_words(best) for best in fronts]
    heights = [2.3 + 0.13 * words.count("\n") for words in named]
    drawn = canvas(sum(heights))
    axes = drawn.subplots(len(panels), 1, height_ratios=heights, squeeze=False)[:, 0]
    for axis, points, best, words in zip(axes, panels, fronts, named, strict=True):
        axis.scatter([p.seconds for p in points], [p.score for p in points], s=10, color=GREY, alpha=0.6, linewidths=0)
        axis.plot(
            [p.seconds for p in best], [p.score for p in best], "o-", color=BETTER, drawstyle="steps-post", markersize=4
        )
        numbered(axis, best)
        data = drawable([points[0].data], "data")[0]
        in_shown_unit(axis.yaxis, value)
        axis.set_title(f"{head(value)}, mean over seeds{f', {data}' if data else ''}", loc="left")
        axis.set_xlabel(f"{points[0].device} of a cell, mean over seeds\n\n{words}", loc="left")
        axis.margins(0.08, 0.12)
    return drawn


def numbered(axis: Any, best: list[Point]) -> None:
    """Number the front's points, moving numbers apart where points are close together."""
    span = max(best[-1].seconds - best[0].seconds, 1e-9)
    last = -np.inf
    for number, point in enumerate(best, start=1):
        position = max((point.seconds - best[0].seconds) / span, last + 0.035)
        last = position
        points = (point.seconds, point.score), (best[0].seconds + position * span, point.score)
        look = {"va": "bottom", "ha": "right", "color": BETTER, "fontsize": 7, "fontweight": "bold"}
        axis.annotate(str(number), *points, **look)


def best_in_words(best: list[Point]) -> str:
    """List the numbers of the front with their configurations."""
    names = drawable([point.label for point in best], "configuration")
    return "\n".join(wrapped(f"{number}  {name}", 76, 1) for number, name in enumerate(names, start=1))


def costs_caption(panels: list[list[Point]], fronts: list[list[Point]], value: str) -> Text:
    count, devices = sum(map(len, panels)), joined(list(dict.fromkeys(panel[0].device for panel in panels)), _(", "))
    labels = [point.label for best in fronts for point in best]
    return _(
        "{score} against {devices} of a cell for {count} configurations; numbered, the Pareto front of the means, "
        "which no test has gone through: {rows}{numbers}",
        score=heading(value), devices=devices, count=count, rows=joined(labels, _("; ")),
        numbers=renamed(labels, "configuration"),
    )  # fmt: skip
