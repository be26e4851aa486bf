"""Each configuration against each other one: the sign of the difference, and its p-value, for all pairs together."""

from pathlib import Path
from typing import Any

import numpy as np

from reports.compare import Section
from reports.figures.canvas import (
    BETTER,
    WORSE,
    Figure,
    canvas,
    drawable,
    labels_in_words,
    renamed,
    save,
    style,
    wrapped,
)
from reports.judge import RowPairs
from reports.markdown import heading
from reports.messages import Said, _
from reports.statistics import ALPHA

FEWEST, MOST = 3, 12  # rows: of two a table says it all, of more no number can be read


def draw_pairs(section: Section, path: Path) -> Figure | None:
    """Of the first score that is compared in pairs."""
    if section.recorded.show.table.columns is not None:
        return None
    for value, pairs in section.pairs.items():
        if FEWEST <= len(pairs.labels) <= MOST and np.isfinite(pairs.p).any():
            higher = next(score.higher for score in section.scores if score.value == value)
            with style():
                drawn = matrix(pairs, value, higher)
                return save(drawn, path.with_name(f"{path.name}-pairs.svg"), pairs_caption(list(pairs.labels), value))
    return None


def matrix(pairs: RowPairs, value: str, higher: bool | None) -> Any:
    labels, count = drawable(list(pairs.labels), "row"), len(pairs.labels)
    drawn = canvas(0.75 + 0.29 * count)
    axis = drawn.subplots()
    for i in range(count):
        for j in range(count):
            if i != j:
                square(axis, i, j, float(pairs.means[i, j]), float(pairs.p[i, j]), higher)
    axis.set_xticks(np.arange(count) + 0.5, [str(number + 1) for number in range(count)])
    axis.set_yticks(
        np.arange(count) + 0.5, [f"{wrapped(name, 26, 1)}  {number}" for number, name in enumerate(labels, start=1)]
    )
    axis.set(xlim=(0, count), ylim=(count, 0))
    axis.xaxis.tick_top()
    axis.tick_params(length=0)
    for spine in axis.spines.values():
        spine.set_visible(False)
    axis.set_title(f"{heading(value)}: row − column, p of all pairs together", loc="right")
    drawn.supxlabel(legend(higher), fontsize=7)
    return drawn


def square(axis: Any, i: int, j: int, difference: float, p: float, higher: bool | None) -> None:
    """Filled where the difference is shown, by which of the two is better."""
    sure = np.isfinite(p) and p <= ALPHA
    better = higher is not None and (difference > 0) == higher
    colour = "#EEEEEE" if not sure else "#BBBBBB" if higher is None else BETTER if better else WORSE
    axis.fill_between([j, j + 1], i, i + 1, facecolor=colour, edgecolor="white", linewidth=0.8)
    sign = "+" if difference > 0 else "−" if difference < 0 else "="
    text = f"{sign}\n{p_value_text(p)}" if np.isfinite(difference) else "–"
    white = sure and higher is not None
    axis.text(j + 0.5, i + 0.5, text, ha="center", va="center", fontsize=6, color="white" if white else "black")


def p_value_text(p: float) -> str:
    if not np.isfinite(p):
        return "no test"
    return "<.001" if p < 0.001 else "1" if p >= 0.9995 else f"{p:.3f}".lstrip("0")


def legend(higher: bool | None) -> str:
    if higher is None:
        return f"dark: p ≤ {ALPHA}"
    return f"blue: the row is better than the column, orange: worse,\nboth at p ≤ {ALPHA}; grey: no difference shown"


def pairs_caption(labels: list[str], value: str) -> Said:
    names, numbers = labels_in_words(labels), renamed(labels, "row")
    return _(
        "Matrix of all pairs by {value}: the sign of row minus column, and its p-value, for all pairs "
        "together: {names}{numbers}",
        value=heading(value),
        names=names,
        numbers=numbers,
    )
