"""A panel a configuration: where its texts lie."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.lines import Line2D

from contrastive.runs.recorded import RecordedRow, RecordedSection
from reports.figures.canvas import (
    COLOURS,
    WIDTH,
    Figure,
    canvas,
    drawable,
    labels_in_words,
    renamed,
    save,
    style,
    wrapped,
)
from reports.load import Picture, Results
from reports.messages import Said, _, joined

MARKERS = "o^sDv"  # with the colours, forty classes can be told apart
ACROSS, MOST = 3, 4  # panels in a line: of a list; and of a pivot, where its columns are no more
LEGEND = 70  # letters in a line of it
LINES = 3  # of a panel's title


def draw_tsne(section: RecordedSection, results: Results, path: Path) -> Figure | None:
    """One panel a configuration at its first seed, laid out as the section's table."""
    rows = rows_with_pictures(section, results)
    if not rows:
        return None
    slots, width = layout(section, rows)
    first = first_of(rows, results)
    places = {id(row): aligned(results.tsne[row.cells[0]], first) for row in rows}
    reach = 1.05 * np.max([np.abs(x).max(0) for x in places.values() if len(x)] or [[1.0, 1.0]], axis=0)
    reach = np.maximum(reach, 0.05 * reach.max())  # texts on one line have a height, too
    tall = float(np.clip(reach[1] / reach[0], 0.4, 1.5))  # a panel's height over its width, as the points need it
    names = class_names(rows, results)
    labels = [row.label for row in section.rows]
    titles = {
        label: wrapped(name, 60 // width, LINES) for label, name in zip(labels, drawable(labels, "row"), strict=True)
    }
    with style():
        drawn, axes = grid(slots, width, tall, names, max(title.count("\n") + 1 for title in titles.values()))
        for axis, row in zip(axes, slots, strict=True):
            if row is not None:
                tsne_panel(axis, results.tsne[row.cells[0]], places[id(row)], reach)
                axis.set_title(titles[row.label], pad=2)
        return save(drawn, path.with_name(f"{path.name}-tsne.png"), tsne_caption(rows, labels, names, results))


def rows_with_pictures(section: RecordedSection, results: Results) -> list[RecordedRow]:
    """None where one panel would stand alone among several rows."""
    rows = [row for row in section.rows if row.cells[0] in results.tsne]
    return rows if len(rows) > 1 or len(section.rows) == 1 else []


def layout(section: RecordedSection, rows: list[RecordedRow]) -> tuple[list[RecordedRow | None], int]:
    """Panels line by line, and how many stand in one: a pivot's columns, below what stands outside of the pivot."""
    across = section.show.table.columns or ""  # which no axis is called
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


def first_of(rows: list[RecordedRow], results: Results) -> Picture:
    """The picture that the others are turned to: the first that has points."""
    pictures = [results.tsne[row.cells[0]] for row in rows]
    return next((arrays for arrays in pictures if len(arrays.x)), pictures[0])


def aligned(arrays: Picture, first: Picture) -> np.ndarray:
    """Coordinates turned and mirrored so that the texts of the first panel lie as there as far as they can.

    t-SNE and UMAP know distances only, and a turned start makes panels agree no better. Of other texts than the first's
    nothing can be turned.
    """
    _, here, there = np.intersect1d(arrays.ids, first.ids, return_indices=True)
    if len(here) < 2:
        return arrays.x
    own, other = (points - points.mean(0) for points in (arrays.x[here], first.x[there]))
    left, _, right = np.linalg.svd(own.T.astype(np.float64) @ other)
    return (arrays.x - arrays.x[here].mean(0)) @ left @ right


def grid(slots: list[Any], width: int, tall: float, names: list[str], lines: int) -> tuple[Any, list[Any]]:
    """Empty panels below titles of so many lines, and a legend of the classes; placed by hand, as sixty may come."""
    shown = [wrapped(name, LEGEND - 10, 1) for name in drawable(names, "class")]
    columns = max(1, min(8, LEGEND // (max(map(len, shown), default=1) + 5)))
    side, title, legend = WIDTH / width * tall, 0.13 * lines + 0.06, 0.16 * -(-len(shown) // columns) + 0.08
    height = -(-len(slots) // width) * (side + title) + legend
    drawn = canvas(height)
    drawn.set_layout_engine("none")
    axes = [
        drawn.add_axes((i % width / width, 1 - (i // width + 1) * (side + title) / height, 1 / width, side / height))
        for i in range(len(slots))
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


def tsne_panel(axis: Any, arrays: Picture, places: np.ndarray, reach: np.ndarray) -> None:
    axis.set(xlim=(-reach[0], reach[0]), ylim=(-reach[1], reach[1]), aspect="equal")
    if len(places) == 0:  # too few texts, or collapsed embeddings
        axis.text(0, 0, wrapped(f"no picture: {arrays.reason}", 24, 6), ha="center", va="center")
    labels = np.asarray(arrays.labels)
    for marker in dict.fromkeys(map(mark, labels.tolist())):
        chosen = np.array([mark(label) == marker for label in labels.tolist()])
        colours = [COLOURS[label % len(COLOURS)] for label in labels[chosen]]
        axis.scatter(*places[chosen].T, c=colours, s=2, alpha=0.7, linewidths=0, marker=marker)


def class_names(rows: list[RecordedRow], results: Results) -> list[str]:
    """Of the classes that the panels show; none where they show several data sets."""
    provenances = [results.provenance(row.cells[0]) for row in rows]
    class_lists = {tuple(provenance.class_counts.get("test", ())) for provenance in provenances if provenance}
    return list(class_lists.pop()) if len(class_lists) == 1 else []


def tsne_caption(rows: list[RecordedRow], labels: list[str], names: list[str], results: Results) -> Said:
    seeds, shown = sorted({row.seeds[0] for row in rows}), labels_in_words([row.label for row in rows])
    others, classes = renamed(labels, "row"), renamed(names, "class")
    method, seed = first_of(rows, results).method, ", ".join(map(str, seeds))
    said = _(
        "{method} of the embeddings, seed {seed}, each turned to agree with the first: {shown}; colour is"
        " the class{others}{classes}",
        method=method, seed=seed, shown=shown, others=others, classes=classes,
    )  # fmt: skip
    empty = [(row.label, results.tsne[row.cells[0]]) for row in rows if not len(results.tsne[row.cells[0]].x)]
    reasons = [_("no picture of {label}: {reason}", label=label, reason=picture.reason) for label, picture in empty]
    return joined([said, *reasons], _("; "))
