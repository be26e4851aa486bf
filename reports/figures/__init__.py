"""Figures of the report: which are drawn for a section, the first screen and the whole grid.

The same numbers give the same bytes; colours suit any colour vision; figures are readable 420 pixels wide.
"""

from pathlib import Path

from reports.compare import Section
from reports.figures import comparisons, costs, curves, embeddings, images
from reports.figures.canvas import Figure
from reports.forest import Chart
from reports.study import Results

__all__ = ["Figure", "draw", "draw_first", "overview"]


def draw(section: Section, results: Results, folder: Path, name: str) -> list[Figure]:
    """Draw the pictures that a section asks for, in reading order; pictures without data are skipped."""
    path, recorded, show = folder / "figures" / name, section.recorded, section.recorded.show
    drawn = [comparisons.draw_pairs(section, path)] if show.pairs else []
    if show.tsne:
        drawn += [embeddings.draw_tsne(recorded, results, path), images.draw_neighbours(recorded, results, path)]
    if show.curves:
        drawn += [curves.draw_curves(recorded, results, path), curves.draw_terms(recorded, results, path)]
    return [figure for figure in drawn if figure is not None]


def draw_first(chart: Chart, folder: Path) -> Figure | None:
    """Draw the forest plot of the first screen."""
    return comparisons.draw_forest(chart, folder / "figures" / "forest.svg")


def overview(results: Results, folder: Path) -> list[Figure]:
    """Draw the figures of the whole grid: score against cost."""
    return costs.draw_costs(results, folder / "figures" / "overview")
