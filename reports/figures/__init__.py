"""Figures of the report: which are drawn for a section.

The same numbers give the same bytes; colours suit any colour vision; figures are readable 420 pixels wide.
"""

import logging
from collections.abc import Callable
from pathlib import Path

from reports.compare import Section
from reports.figures import curves, embeddings, images
from reports.figures.canvas import Figure
from reports.study import Results

__all__ = ["Figure", "draw"]
logger = logging.getLogger(__name__)


def draw(section: Section, results: Results, folder: Path, name: str) -> list[Figure]:
    """Draw the pictures that a section asks for, in reading order; pictures without data are skipped."""
    path, recorded, show = folder / "figures" / name, section.recorded, section.recorded.show
    pictures: list[tuple[bool, Callable[[], Figure | None]]] = [
        (show.tsne, lambda: embeddings.draw_tsne(recorded, results, path)),
        (show.tsne, lambda: images.draw_neighbours(recorded, results, path)),
        (show.curves, lambda: curves.draw_curves(recorded, results, path)),
    ]
    drawn = [drawn_or_left_out(draw_picture) for asked, draw_picture in pictures if asked]
    return [figure for figure in drawn if figure is not None]


def drawn_or_left_out(draw_picture: Callable[[], Figure | None]) -> Figure | None:
    """Return the picture; if it cannot be drawn, warn and return None, so that no picture costs the report."""
    try:
        return draw_picture()
    except OSError:  # the disk is full or read-only
        raise
    except Exception as error:
        logger.warning("a picture was left out, since drawing it failed: %r", error)
        return None
