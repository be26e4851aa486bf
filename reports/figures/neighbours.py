"""Figure of images: some test images, each with its nearest neighbours by each configuration."""

from pathlib import Path

import numpy as np

from contrastive.runs.recorded import RecordedRow, RecordedSection
from reports.figures.canvas import WIDTH, WORSE, Figure, canvas, drawable, labels_in_words, save, style, wrapped
from reports.figures.marks import coloured, rgb
from reports.messages import _
from reports.study import Results

MOST_ROWS, MOST_ASKED = 12, 4  # configurations, and images with their neighbours, in a figure
GAP, RULE = 0.35, 0.14  # between groups, and the mark below a neighbour of another class, in sides of an image


def draw_neighbours(section: RecordedSection, results: Results, path: Path) -> Figure | None:
    """Draw a line of images for each row: an image, its neighbours with a mark below those of another class, and so on.

    The classes of the images differ, and all rows show the same images.
    """
    rows = [row for row in section.rows if getattr(results.tsne.get(row.cells[0]), "near", None) is not None]
    if not rows:
        return None
    shown = rows[:MOST_ROWS]
    names = drawable([row.label for row in shown], "row")
    width = 0.78 * WIDTH
    lines = [strip(*images_of(row, results)) for row in shown]
    height = width * lines[0].shape[0] / lines[0].shape[1]
    with style():
        drawn = canvas(len(shown) * (height + 0.05))
        drawn.set_layout_engine("none")
        for number, (line, name) in enumerate(zip(lines, names, strict=True)):
            axis = drawn.add_axes((0.22, 1 - (number + 1) / len(shown), 0.78, 0.96 / len(shown)))
            axis.imshow(line, interpolation="nearest", aspect="auto")
            axis.set_axis_off()
            axis.text(-0.01, 0.5, wrapped(name, 18), transform=axis.transAxes, ha="right", va="center")
        said = [_("{label} {score}", label=row.label, score=f"{same_class(row, results):.0f}") for row in rows]
        seeds = ", ".join(map(str, sorted({row.seeds[0] for row in rows})))
        return save(
            drawn,
            path.with_name(f"{path.name}-neighbours.png"),
            _("test images and their nearest neighbours: {shown}", shown=labels_in_words([row.label for row in rows])),
            _("Test images, each followed by its nearest neighbours by seed {seed}; underlined: another class. Of the "
              "same class, %: {rows}.", seed=seeds, rows=_("; ").join(said)),
        )  # fmt: skip


def images_of(row: RecordedRow, results: Results) -> tuple[np.ndarray, np.ndarray]:
    picture = results.tsne[row.cells[0]]
    assert picture.near is not None and picture.near_labels is not None
    return picture.near, picture.near_labels


def same_class(row: RecordedRow, results: Results) -> float:
    """Return the percentage of neighbours that have the class of their image."""
    _images, labels = images_of(row, results)
    return float(100 * (labels[:, 1:] == labels[:, :1]).mean())


def strip(images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return groups of images side by side, as red, green and blue."""
    colours, mark, side = coloured(images), rgb(WORSE), images.shape[-1]
    rule = max(1, round(RULE * side))
    groups = []
    for group, own in list(zip(colours, labels, strict=True))[:MOST_ASKED]:
        framed = [
            np.concatenate([image, np.full((rule, side, 3), mark if label != own[0] else 255, np.uint8)])
            for image, label in zip(group, own, strict=True)
        ]
        groups += [*framed, np.full((side + rule, max(1, round(GAP * side)), 3), 255, np.uint8)]
    return np.concatenate(groups[:-1], 1)
