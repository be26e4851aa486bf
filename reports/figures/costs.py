"""Figure of the whole grid: score against cost, with the Pareto front of configurations."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reports.figures import canvas
from reports.markdown import heading, number_text, signed, unit, with_unit
from reports.messages import _, using
from reports.rows import row_cost
from reports.study import Results
from reports.tables import head

FEWEST, APART = 3, 1.1  # fewest points of a panel; least ratio of the highest to the lowest cost


@dataclass(frozen=True)
class Point:
    """A configuration: its mean score, and the mean cost of its cells."""

    label: str
    data: str
    device: str  # GPU-seconds or CPU-seconds of training
    seconds: float
    score: float
    cells: tuple[str, ...] = ()
    conditions: frozenset[Hashable] = frozenset()  # see `Cost`


def draw_costs(results: Results, path: Path) -> canvas.Figure | None:
    """Draw a panel for each data set and kind of device."""
    value, higher = main_value(results)
    by_kind = dict[tuple[str, str], list[Point]]()
    for point in configurations(results, value):
        by_kind.setdefault((point.data, point.device), []).append(point)
    panels = [panel for panel in by_kind.values() if len(panel) >= FEWEST and comparable(panel)]
    if not panels:
        return None
    fronts = [front(panel, higher) for panel in panels]
    sign = 1 if higher else -1
    untimed = [sign * each.scores[value] for each in results.study.references if value in each.scores]
    if untimed and max(untimed) > min(sign * best[0].score for best in fronts):
        fronts = [[] for _front in fronts]  # a reference may be on it
    with canvas.style():
        drawn = costs_figure(panels, fronts, value)
        caption = costs_caption(panels, fronts, value)
        finding = costs_finding(panels, value, higher, results)
        return canvas.save(drawn, path.with_name(f"{path.name}-costs.svg"), caption, finding)


def comparable(panel: Sequence[Point]) -> bool:
    """Return whether costs differ enough for a trade-off, and all cells trained on one machine and day, and in one way;
    else no cost says how many times another it is."""
    seconds = [point.seconds for point in panel]
    conditions = frozenset[Hashable]().union(*(point.conditions for point in panel))
    return max(seconds) > APART * min(seconds) and len(conditions) == 1


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
        if np.isfinite(score) and (cost := row_cost(cells, results)):
            points.setdefault(
                cells, Point(row.label, row.data, cost.device, cost.seconds, score, cells, cost.conditions)
            )
    return list(points.values())


def front(points: Sequence[Point], higher: bool) -> list[Point]:
    """Return the Pareto front, cheapest first: points better than all that cost no more."""
    best: list[Point] = []
    sign = 1 if higher else -1
    for point in sorted(points, key=lambda p: (p.seconds, -sign * p.score)):
        if not best or sign * point.score > sign * best[-1].score:
            best.append(point)
    return best


@using("en")  # which the figures' font can draw
def costs_figure(panels: list[list[Point]], fronts: list[list[Point]], value: str) -> Any:
    """Draw panels one below the other, each with a legend; of many points, only those of the front have a colour."""
    named = [named_points(panel, best) for panel, best in zip(panels, fronts, strict=True)]
    names = [canvas.drawable([point.label for point in some]) for some in named]
    heights = [0.55 * canvas.WIDTH + canvas.legend_height(some) for some in names]
    drawn = canvas.blank(sum(heights))
    subfigures = drawn.subfigures(len(panels), 1, height_ratios=heights, squeeze=False)[:, 0]
    for subfigure, points, best, some, labels in zip(subfigures, panels, fronts, named, names, strict=True):
        axis = subfigure.subplots()
        axis.plot(
            [p.seconds for p in best], [p.score for p in best], color=canvas.GREY, drawstyle="steps-post", zorder=1
        )
        others = [point for point in points if point not in some]
        axis.scatter([p.seconds for p in others], [p.score for p in others], s=12, color=canvas.GREY, linewidths=0)
        handles = [
            axis.scatter(point.seconds, point.score, s=24, color=colour, linewidths=0)
            for point, colour in zip(some, canvas.COLOURS, strict=False)
        ]
        data = "".join(f", {name}" for name in canvas.drawable([points[0].data]) if name)
        canvas.in_shown_unit(axis.yaxis, value)
        axis.set_title(f"{head(value)}, mean over seeds{data}", loc="left")
        axis.set_xlabel(f"{points[0].device}, mean over seeds")
        axis.margins(0.08, 0.12)
        canvas.legend_below(subfigure, handles, labels)
    return drawn


def named_points(points: list[Point], best: list[Point]) -> list[Point]:
    """Return the points that the legend names: all, or those of the front."""
    return points if len(points) <= len(canvas.COLOURS) else best[: len(canvas.COLOURS)]


def costs_caption(panels: list[list[Point]], fronts: list[list[Point]], value: str) -> str:
    count, devices = sum(map(len, panels)), _(", ").join(dict.fromkeys(_(panel[0].device) for panel in panels))
    labels = list[str]()
    for panel, best in zip(panels, fronts, strict=True):
        named = named_points(panel, best)
        numbered = canvas.numbered([point.label for point in named])
        labels += [label for point, label in zip(named, numbered, strict=True) if point in best]
    shown = _(
        "{score} against {devices} per cell for {count} configurations",
        score=heading(value), devices=devices, count=count,
    )  # fmt: skip
    line = _(
        "Pareto front of the means (not tested): {rows}",
        rows=_("; ").join(labels),
    )  # fmt: skip
    return _("; ").join([shown, line] if labels else [shown])


def costs_finding(panels: list[list[Point]], value: str, higher: bool, results: Results) -> str:
    """Say what the best configuration costs and gains beside the baseline, or beside the cheapest one."""
    baselines = {tuple(row.cells) for section in results.study.sections for row in section.rows if row.baseline}
    said = list[str]()
    for panel in panels:
        best = max(panel, key=lambda point: (point.score if higher else -point.score, -point.seconds))
        cheapest = min(panel, key=lambda point: point.seconds)
        against = next((point for point in panel if point.cells in baselines and point != best), cheapest)
        size = with_unit(
            signed(unit(value) * (best.score - against.score), 1 if unit(value) > 1 else 3), unit(value) > 1
        )
        times = number_text(best.seconds / against.seconds)
        if best == against:
            words = _("{label} has the best mean and costs least", label=best.label)
        elif times == "1":
            words = _("{label} costs as much as {against}, for {size} in the mean",
                      label=best.label, against=against.label, size=size)  # fmt: skip
        else:
            words = _("{label} costs {times} times {against}, for {size} in the mean",
                      label=best.label, times=times, against=against.label, size=size)  # fmt: skip
        data = panel[0].data
        said.append(_("{data}: {words}", data=data, words=words) if len(panels) > 1 and data else words)
    untimed = [_("references are not timed")] if any(value in each.scores for each in results.study.references) else []
    return _("{parts}.", parts=_("; ").join([*said, *untimed]))
