"""Figure of embeddings in two dimensions, one panel per configuration."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.lines import Line2D

from contrastive.runs.recorded import RecordedRow, RecordedSection
from reports.figures import canvas
from reports.figures.images import draw_images
from reports.messages import _
from reports.study import Picture, Results

MARKERS = "o^sDv"  # with the colours, forty classes can be told apart
ACROSS = 3  # panels in a line
LINES = 3  # most lines of a panel's title


def draw_tsne(section: RecordedSection, results: Results, path: Path) -> canvas.Figure | None:
    """Draw one panel per configuration at its first seed."""
    pictures_of = {cell: picture for cell, picture in results.tsne.items() if np.isfinite(picture.x).all()}
    rows = [row for row in section.rows if row.cells[0] in pictures_of]
    if not rows or len(rows) == 1 < len(section.rows):  # one of several rows shows nothing
        return None
    pictures = [results.tsne[row.cells[0]] for row in rows]
    first = next((picture for picture in pictures if len(picture.x)), pictures[0])
    points = [aligned(picture, first) for picture in pictures]
    names, across = class_names(rows, results), min(ACROSS, len(rows))
    titles = [canvas.wrapped(name, 60 // across, LINES) for name in canvas.drawable([row.label for row in rows])]
    with canvas.style():
        drawn, axes = empty_panels(titles, across, reach_of(points), names)
        for axis, title, picture, places in zip(axes, titles, pictures, points, strict=False):
            axis.set_title(title, pad=2)
            tsne_panel(axis, picture, places)
        caption = _("t-SNE of seed {seed}, coloured by class.", seed=seeds_of(rows))
        path = path.with_name(f"{path.name}-tsne.png")
        return canvas.save(drawn, path, tsne_caption(rows, names, results), caption)


def reach_of(points: list[np.ndarray]) -> np.ndarray:
    """Return how far panels reach from their centre, to the right and up, so that all points lie within."""
    reach = 1.05 * np.max([np.abs(x).max(0) for x in points if len(x)] or [[1.0, 1.0]], axis=0)
    return np.maximum(reach, np.array([0.6, 0.4]) * (reach.max() or 1.0))  # all points may lie in one place


def aligned(picture: Picture, first: Picture) -> np.ndarray:
    """Rotate and mirror coordinates so that shared texts are as near as possible to their points in the first panel.

    t-SNE keeps only distances, and a rotated start makes panels agree no better. With fewer than two shared
    texts the coordinates stay as they are.
    """
    _, shared, shared_in_first = np.intersect1d(picture.ids, first.ids, return_indices=True)
    if len(shared) < 2:
        return picture.x
    points, target = (x - x.mean(0) for x in (picture.x[shared], first.x[shared_in_first]))
    left, _, right = np.linalg.svd(points.T.astype(np.float64) @ target)
    return (picture.x - picture.x[shared].mean(0)) @ left @ right


def empty_panels(titles: list[str], across: int, reach: np.ndarray, names: list[str]) -> tuple[Any, list[Any]]:
    """Return a canvas with an empty panel below each title, and a legend of the classes, which have these names."""
    down = -(-len(titles) // across)
    title = 0.13 * max(text.count("\n") + 1 for text in titles) + 0.06
    side = canvas.WIDTH / across * reach[1] / reach[0]
    shown = canvas.drawable(names)
    legend = canvas.legend_height(shown) + 0.1
    height = down * (side + title) + legend
    drawn = canvas.blank(height)
    drawn.set_layout_engine("none")  # constraints take long with sixty panels
    spaces = {"left": 0, "bottom": legend / height, "right": 1, "top": 1 - title / height, "wspace": 0}
    grid = drawn.subplots(down, across, squeeze=False, gridspec_kw=spaces | {"hspace": title / side})
    axes = list(grid.flat)
    for axis in axes:
        axis.set(xlim=(-reach[0], reach[0]), ylim=(-reach[1], reach[1]))
        axis.set_axis_off()
    handles = [
        Line2D([], [], marker=marker(label), linestyle="", markersize=4, color=colour(label))
        for label in range(len(names))
    ]
    if handles:
        canvas.legend_below(drawn, handles, shown)
    return drawn, axes


def marker(label: int) -> str:
    return MARKERS[label // len(canvas.COLOURS) % len(MARKERS)]


def colour(label: int) -> str:
    return canvas.COLOURS[label % len(canvas.COLOURS)]


def tsne_panel(axis: Any, picture: Picture, points: np.ndarray) -> None:
    if len(points) == 0:  # too few texts, or collapsed embeddings
        axis.text(0, 0, canvas.wrapped(f"no picture: {picture.reason}", 24, 6), ha="center", va="center")
    labels = picture.labels.tolist()
    shapes = np.array([marker(label) for label in labels], str)
    colours = np.array([colour(label) for label in labels], str)
    for shape in MARKERS:
        chosen = shapes == shape
        axis.scatter(*points[chosen].T, c=colours[chosen].tolist(), s=2, alpha=0.7, linewidths=0, marker=shape)
    draw_images(axis, picture, points)


def class_names(rows: list[RecordedRow], results: Results) -> list[str]:
    """Return the names of the classes in the panels; none if the panels show several data sets."""
    provenances = [results.provenance(row.cells[0]) for row in rows]
    class_lists = {tuple(provenance.class_counts.get("test", ())) for provenance in provenances if provenance}
    return list(class_lists.pop()) if len(class_lists) == 1 else []


def seeds_of(rows: list[RecordedRow]) -> str:
    return ", ".join(map(str, sorted({row.seeds[0] for row in rows})))


def tsne_caption(rows: list[RecordedRow], names: list[str], results: Results) -> str:
    classes = _(" ({names})", names=_(", ").join(canvas.numbered(names))) if names else ""
    caption = _(
        "t-SNE of the embeddings, seed {seed}, each aligned with the first: {shown}; colour is the class{classes}",
        seed=seeds_of(rows), shown=canvas.labels_in_words([row.label for row in rows]), classes=classes,
    )  # fmt: skip
    empty = [(row.label, results.tsne[row.cells[0]]) for row in rows if not len(results.tsne[row.cells[0]].x)]
    reasons = [_("{label} not drawn: {reason}", label=label, reason=picture.reason) for label, picture in empty]
    return _("; ").join([caption, *reasons])
