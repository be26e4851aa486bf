"""Figures that compare rows: heat map of a pivot table, matrix of all pairs, forest plot of the first screen."""

import math
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from reports.compare import RowScore, Section
from reports.families import RowPairs
from reports.figures import canvas
from reports.forest import Chart
from reports.markdown import heading, score_text, symbol
from reports.messages import _, using
from reports.statistics.decide import ALPHA
from reports.tables import head, places_of

PALETTE = "cividis"  # suits any colour vision
MOST_COLUMNS = 7  # columns whose numbers can be read 420 pixels wide
CELLS = 60  # most cells in all panels: with more, the table alone shows the numbers
LINE_OF_CELLS = 0.36  # inches: height of a line of cells
Axes = tuple[str, str]  # down, across


def draw_heat(section: Section, path: Path) -> canvas.Figure | None:
    """Draw a pivot table as heat maps, one a score; None without a pivot of two axes or with more than CELLS cells."""
    axes = directions(section)
    if axes is None:
        return None
    trained = [score for score in section.scores if not score.row.variant and np.isfinite(score.mean)]
    by_value = {
        value: [score for score in trained if score.value == value] for value in section.recorded.show.table.values
    }
    by_value = {value: scores for value, scores in by_value.items() if any(within(score, axes) for score in scores)}
    if not 0 < sum(map(len, by_value.values())) <= CELLS:
        return None
    with canvas.style():
        drawn = heat_figure(by_value, axes)
        path = path.with_name(f"{path.name}-heat.svg")
        return canvas.save(drawn, path, heat_caption(by_value, axes), heat_finding(by_value))


def directions(section: Section) -> Axes | None:
    """Return the axes that go down and across, swapped if that is narrower; None unless the pivot has these two."""
    across = section.recorded.show.table.columns
    inside = [row.axes for row in section.recorded.rows if across in row.axes]
    names = list(dict.fromkeys(name for axes in inside for name in axes if name != across))
    if across is None or len(names) != 1:
        return None
    lines, columns = ({axes.get(name) for axes in inside} for name in (names[0], across))
    swapped = len(columns) > max(MOST_COLUMNS, len(lines))
    return (across, names[0]) if swapped else (names[0], across)


def within(score: RowScore, axes: Axes) -> bool:
    """Return whether a row has a place in the pivot."""
    return all(name in score.row.axes for name in axes)


@using("en")  # which the figures' font can draw
def heat_figure(by_value: dict[str, list[RowScore]], axes: Axes) -> Any:
    lines = [len(settings(part, axes, 0)) + sum(not within(s, axes) for s in part) for part in by_value.values()]
    heights = [LINE_OF_CELLS * count + 0.62 for count in lines]
    columns = max(len(settings(part, axes, 1)) for part in by_value.values())
    drawn = canvas.blank(sum(heights), max(canvas.WIDTH, 1.2 + 0.5 * columns))  # wide enough for the numbers
    frames = drawn.subplots(len(by_value), 1, height_ratios=heights, squeeze=False)[:, 0]
    for axis, (value, part) in zip(frames, by_value.items(), strict=True):
        means = [score.mean for score in part]
        shades = ScalarMappable(Normalize(min(means), max(means)), PALETTE)
        axis.set_title(head(value))
        heat_panel(axis, part, axes, shades)
        bar = drawn.colorbar(shades, ax=axis, fraction=0.05, pad=0.01)
        canvas.in_shown_unit(bar.ax.yaxis, value)
    return drawn


def settings(part: list[RowScore], axes: Axes, place: int) -> list[Any]:
    """Return the values of one of the two axes."""
    return list(dict.fromkeys(score.row.axes[axes[place]] for score in part if within(score, axes)))


def heat_panel(axis: Any, part: list[RowScore], axes: Axes, shades: ScalarMappable) -> None:
    """Draw the cells, and below them, over the whole width, the rows without a place in the pivot."""
    down, across = settings(part, axes, 0), settings(part, axes, 1)
    names = list(map(str, down))
    places = places_of(part, part[0].value)
    for score in part:
        if within(score, axes):
            top, left, width = down.index(score.row.axes[axes[0]]), across.index(score.row.axes[axes[1]]), 1
        else:
            top, left, width = len(names), 0, len(across)
            names.append(score.row.label)
        text = score_text(score.value, score.mean, score.deviation, places).replace(" (", "\n(")
        red, green, blue, _opacity = colour = shades.to_rgba(score.mean)  # type: ignore[arg-type]
        axis.fill_between([left, left + width], top, top + 1, facecolor=colour, linewidth=0.8, edgecolor="white")
        ink = "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "white"
        axis.text(left + width / 2, top + 0.5, text, ha="center", va="center", color=ink, fontsize=6.5)
    letters = max(7, 44 // len(across))
    heads = [canvas.wrapped(name, letters) for name in canvas.drawable(list(map(str, across)))]
    axis.set_xticks(np.arange(len(across)) + 0.5, heads)
    axis.set_yticks(np.arange(len(names)) + 0.5, [canvas.wrapped(name, 16) for name in canvas.drawable(names)])
    axis.set(xlim=(0, len(across)), ylim=(len(names), 0), xlabel=symbol(axes[1]), ylabel=symbol(axes[0]))
    without_frame(axis)


def without_frame(axis: Any) -> None:
    axis.tick_params(length=0)
    for spine in axis.spines.values():
        spine.set_visible(False)


def heat_finding(by_value: dict[str, list[RowScore]]) -> str:
    """Name the highest and the lowest mean of the first score."""
    value, part = next(iter(by_value.items()))
    low, high = (
        _("{label} {score}", label=score.row.label, score=score_text(value, score.mean))
        for score in (best(part, key=lambda each: each.mean) for best in (min, max))
    )
    return _("{value}: highest {high}, lowest {low} (means, not tested).", value=head(value), high=high, low=low)


def heat_caption(by_value: dict[str, list[RowScore]], axes: Axes) -> str:
    scores = [score for part in by_value.values() for score in part]
    outside = list(dict.fromkeys(score.row.label for score in scores if not within(score, axes)))
    levels = [canvas.numbered(list(map(str, settings(scores, axes, place)))) for place in (0, 1)]
    by = [
        _("{axis} ({levels})", axis=symbol(name), levels=_(", ").join(each))
        for name, each in zip(axes, levels, strict=True)
    ]
    return _(
        "Heat map of {values}, mean over seeds (standard deviation), by {axes}{below}",
        values=_(", ").join([heading(value) for value in by_value]), axes=_(" and ").join(by),
        below=_(", and below it {rows}", rows=canvas.labels_in_words(outside)) if outside else "",
    )  # fmt: skip


FEWEST, MOST = 3, 12  # rows of a matrix: a table suffices for two, and with more than 12 the numbers are unreadable


def draw_pairs(section: Section, path: Path) -> canvas.Figure | None:
    """Draw the matrix of all pairs for the first score that is compared in pairs."""
    if section.recorded.show.table.columns is not None:
        return None
    for value, pairs in section.pairs.items():
        if FEWEST <= len(pairs.labels) <= MOST and np.isfinite(pairs.p).any():
            higher = next(score.higher for score in section.scores if score.value == value)
            with canvas.style():
                labels, drawn = list(pairs.labels), matrix(pairs, value, higher)
                caption = _(
                    "All pairs of rows in {value}: the sign of row minus column and its p-value, adjusted "
                    "for all pairs: {names}",
                    value=heading(value), names=canvas.labels_in_words(labels),
                )  # fmt: skip
                apart, count = int(np.sum(np.triu(pairs.p <= ALPHA, 1))), len(labels) * (len(labels) - 1) // 2
                found = _("{apart} of {count} pairs differ in {value}.", apart=apart, count=count, value=heading(value))
                return canvas.save(drawn, path.with_name(f"{path.name}-pairs.svg"), caption, found)
    return None


@using("en")
def matrix(pairs: RowPairs, value: str, higher: bool | None) -> Any:
    labels, count = canvas.drawable(list(pairs.labels)), len(pairs.labels)
    drawn = canvas.blank(0.75 + 0.29 * count)
    axis = drawn.subplots()
    for i in range(count):
        for j in range(count):
            if i != j:
                square(axis, i, j, float(pairs.means[i, j]), float(pairs.p[i, j]), higher)
    axis.set_xticks(np.arange(count) + 0.5, [str(number + 1) for number in range(count)])
    axis.set_yticks(
        np.arange(count) + 0.5,
        [f"{canvas.wrapped(name, 26, 1)}  {number}" for number, name in enumerate(labels, start=1)],
    )
    axis.set(xlim=(0, count), ylim=(count, 0))
    axis.xaxis.tick_top()
    without_frame(axis)
    axis.set_title(f"{heading(value)}: row − column, p of all pairs together", loc="right")
    drawn.supxlabel(legend(higher), fontsize=7)
    return drawn


def square(axis: Any, i: int, j: int, difference: float, p: float, higher: bool | None) -> None:
    """Draw one pair, coloured by which row is better if the difference is significant."""
    significant = np.isfinite(p) and p <= ALPHA
    better = higher is not None and (difference > 0) == higher
    colour = (
        "#EEEEEE" if not significant else "#BBBBBB" if higher is None else canvas.BETTER if better else canvas.WORSE
    )
    axis.fill_between([j, j + 1], i, i + 1, facecolor=colour, edgecolor="white", linewidth=0.8)
    sign = "+" if difference > 0 else "−" if difference < 0 else "="
    text = f"{sign}\n{p_value_text(p)}" if np.isfinite(difference) else "–"
    white = significant and higher is not None
    axis.text(j + 0.5, i + 0.5, text, ha="center", va="center", fontsize=6, color="white" if white else "black")


def p_value_text(p: float) -> str:
    if not np.isfinite(p):
        return "no test"
    return "<.001" if p < 0.001 else "1" if p >= 0.9995 else f"{p:.3f}".lstrip("0")


def legend(higher: bool | None) -> str:
    if higher is None:
        return f"dark: p ≤ {ALPHA}"
    return f"blue: the row is better than the column, orange: worse,\nboth at p ≤ {ALPHA}; grey: no difference shown"


LETTERS = 30  # longest label in a line of the forest plot
LINE = 0.24  # inches: height of a row
MARKS = {
    "better": ("^", canvas.BETTER),
    "worse": ("v", canvas.WORSE),
    "equivalent": ("D", canvas.GREY),
    "baseline": ("|", "black"),
    "reference": ("x", canvas.GREY),
}  # other verdicts: a hollow circle


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
    lines = [line for group in chart.groups for line in ([group.title] if group.title else []) + group.rows]
    drawn = canvas.blank(LINE * len(lines) + 0.75, width=7.2)
    axis = drawn.subplots()
    if chart.margin is not None:
        axis.axvspan(-chart.margin, chart.margin, color="#E4E7EB", linewidth=0, zorder=0)
    axis.axvline(0, color="black", linewidth=0.6, zorder=1)
    names, numbers = list[str](), list[str]()
    for position, row in enumerate(lines):
        if isinstance(row, str):
            names.append(canvas.wrapped(row, LETTERS + 10, 1))
            numbers.append("")
            continue
        names.append(canvas.wrapped(row.label, LETTERS, 1))
        numbers.append("  ".join(each for each in (chart.size(row), row.word, chart.level(row)) if each))
        marker, colour = MARKS.get(row.verdict, ("o", canvas.GREY))
        face = colour if row.verdict in MARKS else "white"
        axis.plot(
            row.seeds, [position + 0.28] * len(row.seeds), "o", color=canvas.GREY, markersize=2.2, markeredgewidth=0
        )
        width = row.half_width if math.isfinite(row.half_width) else 0
        look = {"fmt": marker, "color": colour, "markersize": 5, "markerfacecolor": face}
        axis.errorbar(row.difference, position, xerr=width, **look)
    axis.set(xlim=chart.ends, ylim=(len(lines) - 0.4, -0.6), xticks=chart.ticks)
    axis.set_yticks(range(len(lines)), names)
    for label, row in zip(axis.get_yticklabels(), lines, strict=True):
        label.set_fontweight("bold" if isinstance(row, str) else "normal")
    axis.tick_params("y", length=0)
    axis.spines["left"].set_visible(False)
    right = axis.secondary_yaxis("right")
    right.set_yticks(range(len(lines)), numbers)
    right.tick_params("y", length=0)
    right.spines["right"].set_visible(False)
    axis.set_xlabel(chart.heads[0])
    return drawn
