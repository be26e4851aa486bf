"""Every comparison of the primary score on one axis: differences with intervals, seeds as dots, the margin shaded."""

import math
from pathlib import Path
from typing import Any

from reports.figures.canvas import BETTER, GREY, WORSE, Figure, canvas, save, style, wrapped
from reports.messages import Language, _, joined, using
from reports.overview import ForestRow, Overview

LETTERS = 30  # of a label, in a line
LINE = 0.24  # inches of a row
MARKS = {"better": ("^", BETTER), "worse": ("v", WORSE), "equivalent": ("D", GREY)}  # all others: a hollow circle


def draw_forest(overview: Overview, path: Path, language: Language) -> Figure | None:
    """In a language. Labels are texts, which a browser draws in whatever script they are."""
    if not overview.rows:
        return None
    with style({"svg.fonttype": "none"}), using(language):
        drawn = forest_figure(overview, [str(row.name) for row in overview.rows])
        rows = joined([in_words(row) for row in overview.rows], _("; "))
        said = _(
            "Differences of {score} to the baseline with 95 % intervals, best first: {rows}",
            score=overview.score, rows=rows,
        )  # fmt: skip
        return save(drawn, path, said)


def in_words(row: ForestRow) -> object:
    return _("{label} {size} {verdict}", label=row.name, size=row.size, verdict=row.word)


def forest_figure(overview: Overview, names: list[str]) -> Any:
    """On white, so that it is legible wherever it is shown."""
    drawn = canvas(LINE * len(names) + 0.75, width=6.2)
    axis = drawn.subplots()
    if overview.margin is not None:
        axis.axvspan(-overview.margin, overview.margin, color="#E4E7EB", linewidth=0, zorder=0)
    axis.axvline(0, color="black", linewidth=0.6, zorder=1)
    for place, row in enumerate(overview.rows):
        marker, colour = MARKS.get(row.verdict, ("o", GREY))
        face = colour if row.verdict in MARKS else "white"
        axis.plot(row.seeds, [place + 0.28] * len(row.seeds), "o", color=GREY, markersize=1.8, markeredgewidth=0)
        width = row.half_width if math.isfinite(row.half_width) else 0
        axis.errorbar(row.difference, place, xerr=width, fmt=marker, color=colour, markersize=5, markerfacecolor=face)
    if overview.left_out:
        axis.axhline(len(names) / 2 - 0.5, color=GREY, linewidth=0.6, linestyle="--")
    axis.set(xlim=overview.ends, ylim=(len(names) - 0.4, -0.6))
    axis.set_yticks(range(len(names)), [wrapped(name, LETTERS, 1) for name in names])
    axis.tick_params("y", length=0)
    axis.spines["left"].set_visible(False)
    numbers = axis.secondary_yaxis("right")
    numbers.set_yticks(range(len(names)), [f"{row.size}  {row.word}" for row in overview.rows])
    numbers.tick_params("y", length=0)
    numbers.spines["right"].set_visible(False)
    axis.set_xlabel(str(overview.caption))
    return drawn
