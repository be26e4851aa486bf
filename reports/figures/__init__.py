"""Figures of the report: which are drawn for a section, the first screen and the whole grid.

The same numbers give the same bytes; colours suit any colour vision; figures are readable 420 pixels wide.
"""

from collections.abc import Callable
from pathlib import Path

from reports.compare import Section
from reports.figures import comparisons, costs, curves, embeddings, images
from reports.figures.canvas import Figure, LeftOut, drawn_or_left_out
from reports.forest import Chart
from reports.messages import _
from reports.study import Results

__all__ = ["Figure", "LeftOut", "draw", "draw_first", "overview"]


def draw(section: Section, results: Results, folder: Path, name: str) -> list[Figure | LeftOut]:
    """Draw the pictures that a section asks for, in reading order; pictures without data are skipped."""
    path, recorded, show = folder / "figures" / name, section.recorded, section.recorded.show
    pictures: list[tuple[bool, str, Callable[[], Figure | None]]] = [
        (True, _("heat map"), lambda: comparisons.draw_heat(section, path)),
        (show.pairs, _("matrix of all pairs"), lambda: comparisons.draw_pairs(section, path)),
        (show.tsne, _("plot of the embeddings"), lambda: embeddings.draw_tsne(recorded, results, path)),
        (show.tsne, _("nearest neighbours"), lambda: images.draw_neighbours(recorded, results, path)),
        (show.curves, _("training curves"), lambda: curves.draw_curves(recorded, results, path)),
        (show.curves, _("gradient norms of the loss terms"), lambda: curves.draw_terms(recorded, results, path)),
    ]
    drawn = [drawn_or_left_out(kind, make) for wanted, kind, make in pictures if wanted]
    return [figure for figure in drawn if figure is not None]


def draw_first(chart: Chart, folder: Path) -> Figure | LeftOut | None:
    """Draw the forest plot of the first screen."""
    path = folder / "figures" / "forest.svg"
    return drawn_or_left_out(_("differences to the baseline"), lambda: comparisons.draw_forest(chart, path))


def overview(results: Results, folder: Path) -> list[Figure | LeftOut]:
    """Draw the figures of the whole grid: score against cost."""
    path = folder / "figures" / "overview"
    drawn = drawn_or_left_out(_("score against cost"), lambda: costs.draw_costs(results, path))
    return [drawn] if isinstance(drawn, LeftOut) else [*drawn]
