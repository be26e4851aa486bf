"""Pictures with the same bytes from the same numbers, told apart with any colour vision, readable 420 pixels wide."""

from pathlib import Path
from typing import Any

from reports.figures import costs, curves, forest, heat, pairs, search, spectra, tsne
from reports.figures.canvas import Figure
from reports.load import Results

__all__ = ["Figure", "draw", "overview"]


def draw(section: dict[str, Any], comparisons: Any, results: Results, folder: Path, name: str) -> list[Figure]:
    """The pictures of a section, in the order of reading; one without data is not drawn."""
    path, show = folder / "figures" / name, section["show"]
    drawn = [
        forest.draw(comparisons, path),
        heat.draw(section, comparisons, results, path),
        pairs.draw(section, comparisons, path),
    ]
    if show["tsne"]:
        drawn += [tsne.draw(section, results, path), spectra.draw(section, results, path)]
    if show["curves"]:
        drawn += [curves.draw(section, results, path), curves.draw_terms(section, results, path)]
    return [figure for figure in drawn if figure is not None]


def overview(results: Results, folder: Path) -> list[Figure]:
    """What the whole grid shows: score against cost, and score against the configurations tried."""
    path = folder / "figures" / "overview"
    return [figure for figure in (costs.draw(results, path), search.draw(results, path)) if figure is not None]
