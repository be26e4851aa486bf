"""Figures of the report: which are drawn for a section.

The same numbers give the same bytes; colours suit any colour vision; figures are readable 420 pixels wide.
"""

from pathlib import Path

from reports.compare import Section
from reports.figures import curves, embeddings, images
from reports.figures.canvas import Figure
from reports.study import Results

__all__ = ["Figure", "draw"]


def draw(section: Section, results: Results, folder: Path, name: str) -> list[Figure]:
    """Draw the pictures that a section asks for, in reading order; pictures without data are skipped."""
    path, recorded, show = folder / "figures" / name, section.recorded, section.recorded.show
    drawn = list[Figure | None]()
    if show.tsne:
        drawn += [embeddings.draw_tsne(recorded, results, path), images.draw_neighbours(recorded, results, path)]
    if show.curves:
        drawn.append(curves.draw_curves(recorded, results, path))
    return [figure for figure in drawn if figure is not None]
