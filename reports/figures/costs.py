"""Figure of the whole grid: score against cost, with the Pareto front of configurations."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reports.figures import canvas
from reports.markdown import heading, number_text, signed, unit, with_unit
from reports.messages import _, using
from reports.rows import Cost, row_cost
from reports.study import Results
from reports.tables import head

FEWEST, APART = 3, 1.1  # fewest points of a panel; least ratio of the highest to the lowest cost


@dataclass(frozen=True)
class Point:
    """A configuration: its mean score, and the mean cost of its cells."""

    label: str
    data: str
    cells: tuple[str, ...]
    score: float
    cost: Cost


def draw_costs(results: Results, path: Path) -> list[canvas.Figure]:
    """Draw a figure for each data set and kind of device."""
    value, higher = main_value(results)
    by_kind = dict[tuple[str, str], list[Point]]()
    for point in configurations(results, value):
        by_kind.setdefault((point.data, point.cost.device), []).append(point)
    panels = [points for points in by_kind.values() if len(points) >= FEWEST and comparable(points)]
    baselines = {tuple(row.cells) for section in results.study.sections for row in section.rows if row.baseline}
    figures = []
    for number, points in enumerate(panels, start=1):
        alt = _(
            "{score} against {devices} per cell for {count} configurations, with the Pareto front of the means",
            score=heading(value), devices=_(points[0].cost.device), count=len(points),
        )  # fmt: skip
        with canvas.style():
            drawn = costs_figure(points, front(points, higher), value)
            place = path.with_name(f"{path.name}-costs-{number}.svg" if number > 1 else f"{path.name}-costs.svg")
            figures.append(canvas.save(drawn, place, alt, costs_finding(points, value, higher, baselines)))
    return figures


def comparable(panel: Sequence[Point]) -> bool:
    """Return whether costs differ enough for a trade-off, and all cells trained on one machine and day, and in one way;
    else no cost says how many times another it is."""
    seconds = [point.cost.seconds for point in panel]
    conditions = frozenset[Hashable]().union(*(point.cost.conditions for point in panel))
    return max(seconds) > APART * min(seconds) and len(conditions) == 1


def main_value(results: Results) -> tuple[str, bool]:
    """Return the first score of the report's tables with a better direction, and whether higher is better."""
    values = [value for section in results.study.sections for value in section.show.table.values]
    directions = {value: results.kinds[value].higher_is_better for value in values if value in results.kinds}
    return next(((value, higher) for value, higher in directions.items() if higher is not None), (values[0], True))


def configurations(results: Results, value: str) -> list[Point]:
    """Return each configuration once, if all its seeds were measured and ran on one kind of device."""
    if value not in results.scores:
        return []
    scores = results.by_score[value]
    points: dict[tuple[str, ...], Point] = {}
    for row in (row for section in results.study.sections for row in section.rows):
        cells, cost = tuple(row.cells), row_cost(row.cells, results)
        score = float(np.mean([scores.get(cell, np.nan) for cell in cells]))
        if np.isfinite(score) and cost is not None and cells not in points:
            points[cells] = Point(row.label, row.data, cells, score, cost)
    return list(points.values())


def front(points: Sequence[Point], higher: bool) -> list[Point]:
    """Return the Pareto front, cheapest first: points better than all that cost no more."""
    best: list[Point] = []
    sign = 1 if higher else -1
    for point in sorted(points, key=lambda p: (p.cost.seconds, -sign * p.score)):
        if not best or sign * point.score > sign * best[-1].score:
            best.append(point)
    return best


@using("en")  # which the figures' font can draw
def costs_figure(points: list[Point], best: list[Point], value: str) -> Any:
    """Draw points and their front (`best`); of many points, only those of the front have a colour and a name."""
    coloured = (points if len(points) <= len(canvas.COLOURS) else best)[: len(canvas.COLOURS)]
    names = canvas.drawable([point.label for point in coloured])
    drawn = canvas.blank(0.55 * canvas.WIDTH + canvas.legend_height(names))
    axis = drawn.subplots()
    line = [point.cost.seconds for point in best], [point.score for point in best]
    axis.plot(*line, color=canvas.GREY, drawstyle="steps-post", zorder=1)
    others = [point for point in points if point not in coloured]
    axis.scatter([p.cost.seconds for p in others], [p.score for p in others], s=12, color=canvas.GREY, linewidths=0)
    handles = [
        axis.scatter(point.cost.seconds, point.score, s=24, color=colour, linewidths=0)
        for point, colour in zip(coloured, canvas.COLOURS, strict=False)
    ]
    data = "".join(f", {name}" for name in canvas.drawable([points[0].data]) if name)
    canvas.in_shown_unit(axis.yaxis, value)
    axis.set_title(f"{head(value)}, mean over seeds{data}", loc="left")
    axis.set_xlabel(f"{points[0].cost.device}, mean over seeds")
    axis.margins(0.08, 0.12)
    canvas.legend_below(drawn, handles, names)
    return drawn


def costs_finding(points: list[Point], value: str, higher: bool, baselines: set[tuple[str, ...]]) -> str:
    """Say what the best configuration costs and gains beside the baseline, or beside the cheapest one."""
    best = max(points, key=lambda point: (point.score if higher else -point.score, -point.cost.seconds))
    cheapest = min(points, key=lambda point: point.cost.seconds)
    against = next((point for point in points if point.cells in baselines and point != best), cheapest)
    if best == against:
        words = _("{label} has the best mean and costs least", label=best.label)
    else:
        percent = unit(value) > 1
        size = with_unit(signed(unit(value) * (best.score - against.score), 1 if percent else 3), percent)
        times = number_text(best.cost.seconds / against.cost.seconds)
        words = _("{label} costs {times} times {against}, for {size} in the mean", label=best.label, times=times,
                  against=against.label, size=size)  # fmt: skip
    data = points[0].data
    return _("{parts}.", parts=_("{data}: {words}", data=data, words=words) if data else words)
