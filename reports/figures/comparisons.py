"""The forest plot of the first screen."""

import math
from pathlib import Path
from typing import Any

from reports.figures import canvas
from reports.forest import UNDECIDED, Chart
from reports.messages import _

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
