"""Images in figures: as marks of points, and with their nearest neighbours by each configuration."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.offsetbox import AnnotationBbox, OffsetImage

from contrastive.runs.recorded import RecordedSection
from reports.figures import canvas
from reports.messages import _
from reports.study import Picture, Results

SIDE = 0.13  # inches: the image of a point
FRAME = 0.1  # width of a frame, in sides of the image
MOST_ROWS, MOST_GROUPS = 12, 4  # configurations, and images with their neighbours, in a figure
GAP = 0.25  # between groups, in sides of a framed image


def draw_images(axis: Any, picture: Picture, points: np.ndarray) -> None:
    """Draw images onto their points where none covers another."""
    if picture.images is None or picture.image_ids is None:
        return
    inches = axis.transData.transform(points) / axis.figure.dpi if len(points) else points
    point_of = {identity: number for number, identity in enumerate(picture.ids.tolist())}
    places = list[np.ndarray]()
    for image, identity in zip(picture.images, picture.image_ids.tolist(), strict=True):
        point = point_of.get(identity)
        if point is None or any(np.abs(inches[point] - place).max() < SIDE for place in places):
            continue
        tile = framed(image, canvas.COLOURS[int(picture.labels[point]) % len(canvas.COLOURS)])
        box = OffsetImage(tile, zoom=72 * SIDE / len(tile))
        axis.add_artist(AnnotationBbox(box, points[point], frameon=False, pad=0, annotation_clip=False))
        places.append(inches[point])


def framed(image: np.ndarray, colour: str) -> np.ndarray:
    """Return an image, grey or coloured, in a frame, as pixels of red, green and blue."""
    side = image.shape[-1]
    width = max(1, round(FRAME * side))
    paint = np.round(255 * np.array(to_rgb(colour)))
    whole = np.full((side + 2 * width, side + 2 * width, 3), paint, np.uint8)
    whole[width:-width, width:-width] = np.moveaxis(image, 0, -1)
    return whole


def draw_neighbours(section: RecordedSection, results: Results, path: Path) -> canvas.Figure | None:
    """Draw a line of images for each row: the same test images, each followed by its nearest neighbours."""
    with_images = [(row, results.tsne.get(row.cells[0])) for row in section.rows]
    near = [
        (row, picture.near, picture.near_labels)
        for row, picture in with_images
        if picture is not None and picture.near is not None and picture.near_labels is not None
    ]
    if not near:
        return None
    labels = [row.label for row, _images, _classes in near]
    lines = [strip(images, classes) for _row, images, classes in near[:MOST_ROWS]]
    height = 0.78 * canvas.WIDTH * lines[0].shape[0] / lines[0].shape[1] + 0.05
    with canvas.style():
        drawn = canvas.blank(len(lines) * height)
        drawn.set_layout_engine("none")
        spaces = {"left": 0.22, "bottom": 0, "right": 1, "top": 1, "hspace": 0.05}
        axes = drawn.subplots(len(lines), 1, squeeze=False, gridspec_kw=spaces)[:, 0]
        for axis, line, name in zip(axes, lines, canvas.drawable(labels), strict=False):
            axis.imshow(line, interpolation="nearest", aspect="auto")
            axis.set_axis_off()
            axis.text(-0.01, 0.5, canvas.wrapped(name, 18), transform=axis.transAxes, ha="right", va="center")
        alike = [100 * float((classes[:, 1:] == classes[:, :1]).mean()) for _row, _images, classes in near]
        caption = _(
            "Test images, each followed by its nearest neighbours by seed {seed}; framed: another class. Of the "
            "same class, %: {rows}.",
            seed=", ".join(map(str, sorted({row.seeds[0] for row, _images, _classes in near}))),
            rows=_("; ").join(f"{label} {percent:.0f}" for label, percent in zip(labels, alike, strict=True)),
        )
        alt = _("test images and their nearest neighbours: {shown}", shown=canvas.labels_in_words(labels))
        return canvas.save(drawn, path.with_name(f"{path.name}-neighbours.png"), alt, caption)


def strip(images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return groups of images side by side; neighbours of another class than their image have a coloured frame."""
    tiles = list[np.ndarray]()
    for group, classes in list(zip(images, labels, strict=True))[:MOST_GROUPS]:
        if tiles:
            tiles.append(np.full((len(tiles[0]), round(GAP * len(tiles[0])), 3), 255, np.uint8))
        tiles += [
            framed(image, "white" if label == classes[0] else canvas.WORSE)
            for image, label in zip(group, classes, strict=True)
        ]
    return np.concatenate(tiles, 1)
