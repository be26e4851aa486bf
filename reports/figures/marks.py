"""Images as marks of points: in the figure at places where none covers another, and larger for the page."""

import base64
import io
from typing import Any

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.offsetbox import AnnotationBbox, OffsetImage
from PIL import Image

from reports.figures.canvas import COLOURS, Marks, wrapped
from reports.study import Picture

SIDE, LARGE, NAME = 9, 72, 13  # hundredths of an inch: a mark, the image on a card, and the line with its class
FRAME = 0.1  # width of a frame, in sides of the image


def draw_marks(panels: list[tuple[Any, Picture, np.ndarray]], names: list[str]) -> Marks | None:
    """Draw images onto their points in each panel of a figure; None if there are none. `names`: of the classes."""
    cards, places = dict[int, tuple[str, str, str]](), []
    numbers = dict[int, int]()  # of cards, by id
    canvas = panels[0][0].figure
    width, height = (round(100 * float(inches)) for inches in canvas.get_size_inches())
    for axis, picture, points in panels:
        axis.apply_aspect()
        inches = axis.transData.transform(points) / canvas.dpi * 100 if len(points) else np.zeros((0, 2))
        for image, point, place in apart(picture, inches):
            label, identity = int(picture.labels[point]), int(picture.ids[point])
            colour = COLOURS[label % len(COLOURS)]
            tile = framed(image, colour)
            box = OffsetImage(tile, zoom=0.72 * SIDE / len(tile))
            axis.add_artist(AnnotationBbox(box, points[point], frameon=False, pad=0, annotation_clip=False))
            number = numbers.setdefault(identity, len(numbers))
            name = wrapped(names[label], 12, 1) if label < len(names) else ""
            cards[number] = (address(image), colour, name)
            left, top = round(place[0] - SIDE / 2), round(height - place[1] - SIDE / 2)
            beside = left + SIDE if left + SIDE + LARGE <= width else left - LARGE
            places.append((number, (left, top), (beside, min(max(top, 0), height - LARGE - NAME))))
    return Marks((width, height), cards, places, SIDE, LARGE) if places else None


def apart(picture: Picture, places: np.ndarray) -> list[tuple[np.ndarray, int, np.ndarray]]:
    """Return images of a picture with the numbers and places of their points, none nearer than a mark's side."""
    if picture.images is None or picture.image_ids is None:
        return []
    numbers = {identity: number for number, identity in enumerate(picture.ids.tolist())}
    found = list[tuple[np.ndarray, int, np.ndarray]]()
    for image, identity in zip(picture.images, picture.image_ids.tolist(), strict=True):
        point = numbers.get(identity)
        if point is not None and all(np.abs(places[point] - other).max() >= SIDE for _, _, other in found):
            found.append((image, point, places[point]))
    return found


def coloured(images: np.ndarray) -> np.ndarray:
    """Return images as red, green and blue, which come last; from grey ones too."""
    return np.moveaxis(np.repeat(images, 3 if images.shape[-3] == 1 else 1, axis=-3), -3, -1)


def framed(image: np.ndarray, colour: str) -> np.ndarray:
    side = image.shape[-1]
    width = max(1, round(FRAME * side))
    whole = np.full((side + 2 * width, side + 2 * width, 3), rgb(colour), np.uint8)
    whole[width:-width, width:-width] = coloured(image)
    return whole


def rgb(colour: str) -> np.ndarray:
    return np.round(255 * np.array(to_rgb(colour))).astype(np.uint8)


def address(image: np.ndarray) -> str:
    """Return an image as an address with its content."""
    content = io.BytesIO()
    Image.fromarray(coloured(image)).save(content, "WEBP", quality=80, method=6)
    return f"data:image/webp;base64,{base64.b64encode(content.getvalue()).decode()}"
