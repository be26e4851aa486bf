"""Figures of points: score against cost, with the Pareto front of configurations; embeddings in two dimensions."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.lines import Line2D

from contrastive.runs.recorded import RecordedRow, RecordedSection
from reports.figures.canvas import (
    BETTER,
    COLOURS,
    GREY,
    WIDTH,
    Figure,
    canvas,
    drawable,
    in_shown_unit,
    labels_in_words,
    renamed,
    save,
    style,
    wrapped,
)
from reports.figures.marks import draw_marks
from reports.markdown import heading, number_text, score_text, signed, unit, with_unit
from reports.messages import _, using
from reports.rows import row_cost
from reports.study import Picture, Results
from reports.tables import head

FEWEST, APART = 3, 1.1  # fewest points of a panel; least ratio of the highest to the lowest cost
MOST_NAMED = 14  # points of a panel; of more, only the front is named


@dataclass(frozen=True)
class Point:
    """A configuration: its mean score, and the mean cost of its cells."""

    label: str
    data: str
    device: str  # as in `Cost`
    seconds: float
    score: float
    cells: tuple[str, ...] = ()
    conditions: frozenset[Hashable] = frozenset()  # see `Cost`


def draw_costs(results: Results, path: Path) -> Figure | None:
    value, higher = main_value(results)
    points = configurations(results, value)
    kinds = dict.fromkeys((p.data, p.device) for p in points)
    panels = [[p for p in points if (p.data, p.device) == kind] for kind in kinds]
    panels = [panel for panel in panels if len(panel) >= FEWEST and apart(panel) and comparable(panel)]
    if not panels:
        return None
    fronts = [front(panel, higher) for panel in panels]
    worst = [best[0].score for best in fronts]
    untimed = [score for each in results.study.references if (score := each.scores.get(value)) is not None]
    if any((score - each) * (1 if higher else -1) > 0 for score in untimed for each in worst):
        fronts = [[] for _front in fronts]  # a reference may be on it
    with style():
        drawn = costs_figure(panels, fronts, value)
        return save(
            drawn,
            path.with_name(f"{path.name}-costs.svg"),
            costs_caption(panels, fronts, value),
            costs_finding(panels, value, higher, results),
        )


def apart(panel: Sequence[Point]) -> bool:
    """Return whether costs differ enough for a trade-off."""
    seconds = [point.seconds for point in panel]
    return max(seconds) > APART * min(seconds)


def comparable(panel: Sequence[Point]) -> bool:
    """Return whether all cells trained on one machine and day, and in one way; else no cost says how many times
    another it is."""
    return len(frozenset[Hashable]().union(*(point.conditions for point in panel))) == 1


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
    across = min(len(panels), 2)
    down = -(-len(panels) // across)
    drawn = canvas(2.4 * down, WIDTH * across)
    axes = drawn.subplots(down, across, squeeze=False).flatten()
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    for axis, points, best in zip(axes, panels, fronts, strict=False):
        axis.scatter([p.seconds for p in points], [p.score for p in points], s=12, color=GREY, linewidths=0)
        axis.plot(
            [p.seconds for p in best], [p.score for p in best], "o-", color=BETTER, drawstyle="steps-post", markersize=4
        )
        data = drawable([points[0].data], "data")[0]
        in_shown_unit(axis.yaxis, value)
        axis.set_title(f"{head(value)}, mean over seeds{f', {data}' if data else ''}", loc="left")
        axis.set_xlabel(f"{points[0].device}, mean over seeds")
        axis.margins(0.08, 0.12)
        name_points(axis, points if len(points) <= MOST_NAMED else best, best)
    return drawn


def name_points(axis: Any, points: Sequence[Point], best: Sequence[Point]) -> None:
    """Write the names in a column at the right, in the order of the scores, each with a line to its point."""
    ordered = sorted(points, key=lambda point: point.score)
    names = drawable([point.label for point in ordered], "configuration")
    for position, (point, name) in enumerate(zip(ordered, names, strict=True)):
        height = (position + 0.5) / len(ordered)
        axis.annotate(
            wrapped(name, 26, 1), (point.seconds, point.score), (1.06, height), textcoords="axes fraction", va="center",
            color=BETTER if point in best else "black", annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": "#BBBBBB", "linewidth": 0.5, "shrinkB": 3},
        )  # fmt: skip


def costs_caption(panels: list[list[Point]], fronts: list[list[Point]], value: str) -> str:
    count, devices = sum(map(len, panels)), _(", ").join(dict.fromkeys(_(panel[0].device) for panel in panels))
    labels = [point.label for best in fronts for point in best]
    shown = _(
        "{score} against {devices} per cell for {count} configurations",
        score=heading(value), devices=devices, count=count,
    )  # fmt: skip
    line = _(
        "Pareto front of the means (not tested): {rows}{numbers}",
        rows=_("; ").join(labels), numbers=renamed(labels, "configuration"),
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


MARKERS = "o^sDv"  # with the colours, forty classes can be told apart
ACROSS, MOST = 3, 4  # panels in a line for a list of rows; most columns of a pivot that are laid out as such
LEGEND = 70  # letters in a line of the legend
LINES = 3  # most lines of a panel's title


def draw_tsne(section: RecordedSection, results: Results, path: Path) -> Figure | None:
    """Draw one panel per configuration at its first seed, laid out as the section's table."""
    rows = [row for row in section.rows if row.cells[0] in results.tsne]
    if not rows or len(rows) == 1 < len(section.rows):  # one of several rows shows nothing
        return None
    slots, width = layout(section, rows)
    first = alignment_reference(rows, results)
    points = {id(row): aligned(results.tsne[row.cells[0]], first) for row in rows}
    reach = 1.05 * np.max([np.abs(x).max(0) for x in points.values() if len(x)] or [[1.0, 1.0]], axis=0)
    reach = np.maximum(reach, 0.05 * reach.max())  # points on one line still need a panel with a height
    ratio = float(np.clip(reach[1] / reach[0], 0.4, 1.5))  # of a panel's height to its width
    names = class_names(rows, results)
    labels = [row.label for row in section.rows]
    titles = {
        label: wrapped(name, 60 // width, LINES) for label, name in zip(labels, drawable(labels, "row"), strict=True)
    }
    with style():
        drawn, axes = empty_panels(
            len(slots), width, ratio, names, max(title.count("\n") + 1 for title in titles.values())
        )
        for axis, row in zip(axes, slots, strict=True):
            if row is not None:
                tsne_panel(axis, results.tsne[row.cells[0]], points[id(row)], reach)
                axis.set_title(titles[row.label], pad=2)
        shown = [(axis, row) for axis, row in zip(axes, slots, strict=True) if row is not None]
        marks = draw_marks([(axis, results.tsne[row.cells[0]], points[id(row)]) for axis, row in shown], names)
        caption = tsne_finding(rows, results)
        if marks:
            shown_so = _("Some points are drawn as their images.")
            caption = " ".join([caption, shown_so]) if caption else shown_so
        figure = save(
            drawn,
            path.with_name(f"{path.name}-tsne.png"),
            tsne_caption(rows, labels, names, results),
            caption,
        )
        return replace(figure, marks=marks)


def layout(section: RecordedSection, rows: list[RecordedRow]) -> tuple[list[RecordedRow | None], int]:
    """Return the panels line by line (None: an empty one), and the number of panels in a line.

    For a pivot, a line has its columns, below the rows that have no place in the pivot.
    """
    across = section.show.table.columns or ""  # no axis has an empty name
    inside = [row for row in rows if across in row.axes]
    columns = list(dict.fromkeys(row.axes[across] for row in inside))
    if not 1 < len(columns) <= MOST:
        return list(rows), min(ACROSS, len(rows))
    outside: list[RecordedRow | None] = [row for row in rows if row not in inside]
    slots = outside + [None] * (-len(outside) % len(columns))
    lines: dict[tuple[Any, ...], list[RecordedRow]] = {}
    for row in inside:
        lines.setdefault(tuple((n, v) for n, v in row.axes.items() if n != across), []).append(row)
    for line in lines.values():
        by_column = {row.axes[across]: row for row in line}
        slots += [by_column.get(column) for column in columns]
    return slots, len(columns)


def alignment_reference(rows: list[RecordedRow], results: Results) -> Picture:
    """Return the picture that the others are aligned to: the first that has points, else the first."""
    pictures = [results.tsne[row.cells[0]] for row in rows]
    return next((picture for picture in pictures if len(picture.x)), pictures[0])


def aligned(picture: Picture, first: Picture) -> np.ndarray:
    """Rotate and mirror coordinates so that shared texts are as near as possible to their points in the first panel.

    t-SNE and UMAP keep only distances, and a rotated start makes panels agree no better. With fewer than two shared
    texts the coordinates stay as they are.
    """
    _, shared, shared_in_first = np.intersect1d(picture.ids, first.ids, return_indices=True)
    if len(shared) < 2:
        return picture.x
    points, target = (x - x.mean(0) for x in (picture.x[shared], first.x[shared_in_first]))
    left, _, right = np.linalg.svd(points.T.astype(np.float64) @ target)
    return (picture.x - picture.x[shared].mean(0)) @ left @ right


def empty_panels(count: int, width: int, ratio: float, names: list[str], lines: int) -> tuple[Any, list[Any]]:
    """Return a canvas with empty panels below titles of `lines` lines, and a legend of the classes.

    Panels are placed by hand, since there may be sixty.
    """
    shown = [wrapped(name, LEGEND - 10, 1) for name in drawable(names, "class")]
    columns = max(1, min(8, LEGEND // (max(map(len, shown), default=1) + 5)))
    side, title, legend = WIDTH / width * ratio, 0.13 * lines + 0.06, 0.16 * -(-len(shown) // columns) + 0.08
    height = -(-count // width) * (side + title) + legend
    drawn = canvas(height)
    drawn.set_layout_engine("none")
    axes = [
        drawn.add_axes((i % width / width, 1 - (i // width + 1) * (side + title) / height, 1 / width, side / height))
        for i in range(count)
    ]
    for axis in axes:
        axis.set_axis_off()
    handles = [
        Line2D([], [], marker=mark(i), linestyle="", markersize=4, color=COLOURS[i % len(COLOURS)], label=name)
        for i, name in enumerate(shown)
    ]
    if handles:
        drawn.legend(
            handles=handles, loc="lower center", ncols=columns, handletextpad=0.1, columnspacing=1, borderpad=0.2
        )
    return drawn, axes


def mark(label: int) -> str:
    return MARKERS[label // len(COLOURS) % len(MARKERS)]


def tsne_panel(axis: Any, picture: Picture, points: np.ndarray, reach: np.ndarray) -> None:
    axis.set(xlim=(-reach[0], reach[0]), ylim=(-reach[1], reach[1]), aspect="equal")
    if len(points) == 0:  # too few texts, or collapsed embeddings
        axis.text(0, 0, wrapped(f"no picture: {picture.reason}", 24, 6), ha="center", va="center")
    labels = np.asarray(picture.labels)
    for marker in dict.fromkeys(map(mark, labels.tolist())):
        chosen = np.array([mark(label) == marker for label in labels.tolist()])
        colours = [COLOURS[label % len(COLOURS)] for label in labels[chosen]]
        axis.scatter(*points[chosen].T, c=colours, s=2, alpha=0.7, linewidths=0, marker=marker)


def class_names(rows: list[RecordedRow], results: Results) -> list[str]:
    """Return the names of the classes in the panels; none if the panels show several data sets."""
    provenances = [results.provenance(row.cells[0]) for row in rows]
    class_lists = {tuple(provenance.class_counts.get("test", ())) for provenance in provenances if provenance}
    return list(class_lists.pop()) if len(class_lists) == 1 else []


def tsne_finding(rows: list[RecordedRow], results: Results) -> str:
    """Give the kNN accuracy of the drawn vectors, if it was measured: how far their classes lie apart."""
    scores = results.by_score.get("test.knn_accuracy", {})
    said = [
        _("{label} {score}", label=row.label, score=score_text("test.knn_accuracy", scores[row.cells[0]], places=1))
        for row in rows
        if row.cells[0] in scores
    ]
    seeds = ", ".join(map(str, sorted({row.seeds[0] for row in rows})))
    method = alignment_reference(rows, results).method
    if not said:
        return ""
    return _("{method} of seed {seed}, coloured by class; kNN accuracy, %: {rows}.",
             method=method, seed=seeds, rows=_("; ").join(said))  # fmt: skip


def tsne_caption(rows: list[RecordedRow], labels: list[str], names: list[str], results: Results) -> str:
    seeds, shown = sorted({row.seeds[0] for row in rows}), labels_in_words([row.label for row in rows])
    others, classes = renamed(labels, "row"), renamed(names, "class")
    method, seed = alignment_reference(rows, results).method, ", ".join(map(str, seeds))
    caption = _(
        "{method} of the embeddings, seed {seed}, each aligned with the first: {shown}; colour is the "
        "class{others}{classes}",
        method=method, seed=seed, shown=shown, others=others, classes=classes,
    )  # fmt: skip
    empty = [(row.label, results.tsne[row.cells[0]]) for row in rows if not len(results.tsne[row.cells[0]].x)]
    reasons = [_("{label} not drawn: {reason}", label=label, reason=picture.reason) for label, picture in empty]
    return _("; ").join([caption, *reasons])
