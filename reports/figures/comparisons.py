"""Figures that compare rows: matrix of all pairs, and forest plot of the first screen."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from reports.compare import Section
from reports.families import RowPairs
from reports.figures import canvas
from reports.forest import UNDECIDED, Chart
from reports.markdown import heading
from reports.messages import _, using
from reports.rows import Row
from reports.statistics.decide import ALPHA

FEWEST, MOST = 3, 12  # rows of a matrix: a table suffices for two, and with more than 12 the numbers are unreadable


def draw_pairs(section: Section, path: Path) -> canvas.Figure | None:
    """Draw the matrix of all pairs for the first score that is compared in pairs."""
    if section.recorded.show.table.columns is not None:
        return None
    for value, pairs in section.pairs.items():
        rows = [row for row in section.rows if any(row.number in pair for pair in pairs)]
        if FEWEST <= len(rows) <= MOST and any(np.isfinite(decided.p) for decided, _group in pairs.values()):
            alt = _(
                "All pairs of rows in {value}: the sign of row minus column and its p-value, adjusted "
                "for all pairs: {names}",
                value=heading(value), names=canvas.labels_in_words([row.label for row in rows]),
            )  # fmt: skip
            apart = sum(decided.p <= ALPHA for decided, _group in pairs.values())
            count = math.comb(len(rows), 2)
            caption = _("{apart} of {count} pairs differ in {value}.", apart=apart, count=count, value=heading(value))
            higher = next(bool(score.higher) for score in section.scores if score.value == value)
            with canvas.style():
                drawn = matrix(rows, pairs, value, higher)
                return canvas.save(drawn, path.with_name(f"{path.name}-pairs.svg"), alt, caption)
    return None


@using("en")
def matrix(rows: list[Row], pairs: RowPairs, value: str, higher: bool) -> Any:
    labels, count = canvas.drawable([row.label for row in rows]), len(rows)
    drawn = canvas.blank(0.75 + 0.29 * count)
    axis = drawn.subplots()
    position = {row.number: i for i, row in enumerate(rows)}
    for (first, second), (decided, _group) in pairs.items():
        i, j = position[first], position[second]
        square(axis, i, j, decided.difference, decided.p, higher)
        square(axis, j, i, -decided.difference, decided.p, higher)
    names = [f"{canvas.wrapped(name, 26, 1)}  {number}" for number, name in enumerate(labels, start=1)]
    axis.set_xticks(np.arange(count) + 0.5, [str(number + 1) for number in range(count)])
    axis.set_yticks(np.arange(count) + 0.5, names)
    axis.set(xlim=(0, count), ylim=(count, 0))
    axis.xaxis.tick_top()
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    axis.set_title(f"{heading(value)}: row − column, p of all pairs together", loc="right")
    legend = f"blue: the row is better than the column, orange: worse,\nboth at p ≤ {ALPHA}; grey: no difference shown"
    drawn.supxlabel(legend, fontsize=7)
    return drawn


def square(axis: Any, i: int, j: int, difference: float, p: float, higher: bool) -> None:
    """Draw one pair, coloured by which row is better if the difference is significant."""
    colour, ink = "#EEEEEE", "black"
    if p <= ALPHA:
        colour, ink = canvas.BETTER if (difference > 0) == higher else canvas.WORSE, "white"
    axis.fill_between([j, j + 1], i, i + 1, facecolor=colour, edgecolor="white", linewidth=0.8)
    sign = "+" if difference > 0 else "−" if difference < 0 else "="
    text = f"{sign}\n{p_value_text(p)}" if np.isfinite(difference) else "–"
    axis.text(j + 0.5, i + 0.5, text, ha="center", va="center", fontsize=6, color=ink)


def p_value_text(p: float) -> str:
    if not np.isfinite(p):
        return "no test"
    return "<.001" if p < 0.001 else "1" if p >= 0.9995 else f"{p:.3f}".lstrip("0")


LETTERS = 30  # longest label in a line of the forest plot
LINE = 0.24  # inches: height of a row
COLOURS = {"better": canvas.BETTER, "worse": canvas.WORSE, "baseline": "black"}  # of marks; others are grey


def draw_forest(chart: Chart, path: Path) -> canvas.Figure | None:
    """Draw the forest plot; its labels stay SVG text, so a browser can draw any script."""
    if not chart.rows:
        return None
    with canvas.style({"svg.fonttype": "none"}):
        drawn = forest_figure(chart)
        rows = [
            _("{label} {size} {verdict}", label=row.label, size=chart.size(row), verdict=row.word) for row in chart.rows
        ]
        caption = _(
            "Differences in {score} to the baseline with 95 % intervals, best first: {rows}",
            score=chart.score, rows=_("; ").join(rows),
        )  # fmt: skip
        return canvas.save(drawn, path, caption)


def forest_figure(chart: Chart) -> Any:
    """Draw on white, so that it is legible on any background: a line for each row, and one for each question."""
    lines = [line for group in chart.groups for line in ([(group.title, False)] if group.title else []) + group.lines]
    drawn = canvas.blank(LINE * len(lines) + 0.75, width=7.2)
    axis = drawn.subplots()
    if chart.margin is not None:
        axis.axvspan(-chart.margin, chart.margin, color="#E4E7EB", linewidth=0, zorder=0)
    axis.axvline(0, color="black", linewidth=0.6, zorder=1)
    names, numbers = list[str](), list[str]()
    for position, (row, is_part) in enumerate(lines):
        if isinstance(row, str):
            names.append(canvas.wrapped(row, LETTERS + 10, 1))
            numbers.append("")
            continue
        names.append(canvas.wrapped(row.label, LETTERS, 1) + is_part * "   ")
        words = (chart.size(row), row.sign if is_part else row.word, chart.level(row))
        numbers.append("  ".join(each for each in words if each))
        colour = COLOURS.get(row.verdict, canvas.GREY)
        face = "white" if row.mark == UNDECIDED else colour
        axis.plot(
            row.seeds, [position + 0.28] * len(row.seeds), "o", color=canvas.GREY, markersize=2.2, markeredgewidth=0
        )
        width = row.half_width if math.isfinite(row.half_width) else 0
        if row.parts:
            middle = row.difference
            corners = [(middle - width, position), (middle, position - 0.2), (middle + width, position)]
            corners.append((middle, position + 0.2))
            axis.fill(*zip(*corners, strict=True), facecolor=face, edgecolor=colour, linewidth=0.8, zorder=3)
            continue
        look = {"fmt": row.mark.marker, "color": colour, "markersize": 3.5 if is_part else 5, "markerfacecolor": face}
        axis.errorbar(row.difference, position, xerr=width, **look)
    axis.set(xlim=chart.ends, ylim=(len(lines) - 0.4, -0.6), xticks=chart.ticks)
    axis.set_yticks(range(len(lines)), names)
    for label, (row, is_part) in zip(axis.get_yticklabels(), lines, strict=True):
        label.set_fontweight("bold" if isinstance(row, str) else "normal")
        label.set_color(canvas.GREY if is_part else "black")
    axis.tick_params("y", length=0)
    axis.spines["left"].set_visible(False)
    right = axis.secondary_yaxis("right")
    right.set_yticks(range(len(lines)), numbers)
    right.tick_params("y", length=0)
    right.spines["right"].set_visible(False)
    axis.set_xlabel(chart.heads[0])
    return drawn
