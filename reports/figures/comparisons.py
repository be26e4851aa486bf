"""Figures that compare rows: heat map of a pivot table, matrix of all pairs, forest plot of the first screen."""

import math
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from reports.compare import RowScore, Section
from reports.families import RowPairs
from reports.figures.canvas import (
    BETTER,
    GREY,
    WIDTH,
    WORSE,
    Figure,
    canvas,
    drawable,
    in_shown_unit,
    labels_in_words,
    renamed,
    save,
    style,
    wrapped,
)
from reports.markdown import heading, score_text, symbol
from reports.messages import _, using
from reports.overview import Overview
from reports.statistics.decide import ALPHA
from reports.study import Results
from reports.tables import head, places_of

PALETTE = "cividis"  # suits any colour vision
MOST_COLUMNS = 7  # columns whose numbers can be read 420 pixels wide
CELLS = 60  # most cells in all panels: with more, the table alone shows the numbers
LINE_OF_CELLS = 0.36  # inches: height of a line of cells
Key = tuple[tuple[str, str], ...]
Axes = tuple[str, str]  # down, across
Panel = tuple[str, Key, list[RowScore]]


def draw_heat(section: Section, results: Results, path: Path) -> Figure | None:
    """Draw a pivot table as heat maps; None without a pivot or with more than CELLS cells."""
    table = section.recorded.show.table
    if table.columns is None:
        return None
    scores = [score for score in section.scores if score.value in table.values and np.isfinite(score.mean)]
    axes = directions(section, scores)
    if not scores or axes is None:
        return None
    panels = [
        (value, key, part)
        for value in dict.fromkeys(score.value for score in scores)
        for key, part in heat_panels([score for score in scores if score.value == value], axes)
    ]
    if sum(map(len, (part for _, _, part in panels))) > CELLS:
        return None
    with style():
        drawn = heat_figure(panels, axes, results)
        return save(drawn, path.with_name(f"{path.name}-heat.svg"), heat_caption(panels, axes), heat_finding(panels))


def directions(section: Section, scores: list[RowScore]) -> Axes | None:
    """Return the axes that go down and across, swapped if that is narrower; None if the pivot has no second axis."""
    across, settings = str(section.recorded.show.table.columns), [score.row.axes for score in scores]
    names = dict.fromkeys(name for axes in settings for name in axes if name != across)
    down = section.recorded.show.table.rows or next(iter(names), None)
    inside = [axes for axes in settings if across in axes and down in axes]
    if down is None or not inside:
        return None
    lines, columns = ({axes[name] for axes in inside} for name in (down, across))
    turned = len(columns) > max(MOST_COLUMNS, len(lines))
    return (across, down) if turned else (down, across)


def within(score: RowScore, axes: Axes) -> bool:
    """Return whether a row has a place in the pivot."""
    return all(name in score.row.axes for name in axes)


def heat_panels(scores: list[RowScore], axes: Axes) -> list[tuple[Key, list[RowScore]]]:
    """Return a panel for each setting of the other axes; rows without a place in the pivot are in every panel."""
    keys = [tuple((n, str(v)) for n, v in score.row.axes.items() if n not in axes) for score in scores]
    chosen = dict.fromkeys(key for key, score in zip(keys, scores, strict=True) if within(score, axes))
    return [
        (key, [score for rest, score in zip(keys, scores, strict=True) if rest == key or not within(score, axes)])
        for key in chosen
    ]


@using("en")  # which the figures' font can draw
def heat_figure(panels: list[Panel], axes: Axes, results: Results) -> Any:
    lines = [len(axis_settings(part, axes[0], axes)) + sum(not within(s, axes) for s in part) for _, _, part in panels]
    heights = [LINE_OF_CELLS * count + 0.62 for count in lines]
    scales = {value: scale(value, results) for value, _, _ in panels}
    columns = max(len(axis_settings(part, axes[1], axes)) for _, _, part in panels)
    drawn = canvas(sum(heights), max(WIDTH, 1.2 + 0.5 * columns))  # wide enough for the numbers in the cells
    frames = drawn.subplots(len(panels), 1, height_ratios=heights, squeeze=False)[:, 0]
    for axis, (value, key, part) in zip(frames, panels, strict=True):
        rest = ", ".join(f"{symbol(name)}={setting}" for name, setting in key)
        axis.set_title(", ".join([head(value), *drawable([rest] if rest else [], "part")]))
        heat_panel(axis, part, axes, scales[value])
        bar = drawn.colorbar(shades(scales[value]), ax=axis, fraction=0.05, pad=0.01)
        in_shown_unit(bar.ax.yaxis, value)
    return drawn


def axis_settings(part: list[RowScore], name: str, axes: Axes) -> list[Any]:
    return list(dict.fromkeys(score.row.axes[name] for score in part if within(score, axes)))


def scale(value: str, results: Results) -> Normalize:
    """Return a colour scale from the lowest to the highest mean of all rows of the report."""
    columns = [name for name in results.scores.columns if name == value or name.endswith(f"/{value}")]
    rows = [row.cells for section in results.study.sections for row in section.rows]
    numbers = np.repeat(np.arange(len(rows)), [len(cells) for cells in rows])
    cells = results.scores[columns].reindex([cell for cells in rows for cell in cells])
    means = cells.groupby(numbers).mean().to_numpy(float).ravel()
    means = means[np.isfinite(means)]
    return Normalize(float(means.min()), float(means.max())) if len(means) else Normalize(0, 1)


def heat_panel(axis: Any, part: list[RowScore], axes: Axes, colours: Normalize) -> None:
    """Draw the cells, and below them, over the whole width, the rows without a place in the pivot."""
    down, across = (axis_settings(part, name, axes) for name in axes)
    names = drawable([str(name) for name in down], symbol(axes[0]))
    places = places_of(part, part[0].value)
    for score in part:
        if within(score, axes):
            top, left, width = down.index(score.row.axes[axes[0]]), across.index(score.row.axes[axes[1]]), 1
        else:
            top, left, width = len(names), 0, len(across)
            names.append(drawable([score.row.label], "outside")[0])
        text = score_text(score.value, score.mean, score.deviation, places).replace(" (", "\n(")
        heat_cell(axis, (top, left, width), text, shades(colours).to_rgba(score.mean))  # type: ignore[arg-type]
    letters = max(7, 44 // len(across))
    heads = [wrapped(name, letters) for name in drawable([str(name) for name in across], symbol(axes[1]))]
    axis.set_xticks(np.arange(len(across)) + 0.5, heads)
    axis.set_yticks(np.arange(len(names)) + 0.5, [wrapped(name, 16) for name in names])
    axis.set(xlim=(0, len(across)), ylim=(len(names), 0), xlabel=symbol(axes[1]), ylabel=symbol(axes[0]))
    without_frame(axis)


def without_frame(axis: Any) -> None:
    axis.tick_params(length=0)
    for spine in axis.spines.values():
        spine.set_visible(False)


def heat_cell(axis: Any, place: tuple[int, int, int], text: str, colour: Any) -> None:
    top, left, width = place
    axis.fill_between([left, left + width], top, top + 1, facecolor=colour, linewidth=0.8, edgecolor="white")
    light = 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2] > 0.5
    axis.text(
        left + width / 2, top + 0.5, text, ha="center", va="center", color="black" if light else "white", fontsize=6.5
    )


def shades(colours: Normalize) -> ScalarMappable:
    return ScalarMappable(colours, PALETTE)


def heat_finding(panels: list[Panel]) -> str:
    """Name the highest and the lowest mean of the first score."""
    value = panels[0][0]
    scores = sorted((s for name, _key, part in panels if name == value for s in part), key=lambda score: score.mean)
    low, high = (
        _("{label} {score}", label=s.row.label, score=score_text(value, s.mean)) for s in (scores[0], scores[-1])
    )
    return _("{value}: highest {high}, lowest {low} (means, not tested).", value=head(value), high=high, low=low)


def heat_caption(panels: list[Panel], axes: Axes) -> str:
    values = _(", ").join(dict.fromkeys(heading(value) for value, _key, _part in panels))
    scores = [score for _value, _key, part in panels for score in part]
    levels = [list(map(str, axis_settings(scores, name, axes))) for name in axes]
    outside = list(dict.fromkeys(score.row.label for score in scores if not within(score, axes)))
    by = [
        _("{axis} ({levels})", axis=symbol(name), levels=_(", ").join(settings))
        for name, settings in zip(axes, levels, strict=True)
    ]
    numbers = "".join([renamed(settings, symbol(name)) for name, settings in zip(axes, levels, strict=True)])
    below = _(", and below it {rows}", rows=labels_in_words(outside)) if outside else ""
    return _(
        "Heat map of {values}, mean over seeds (standard deviation), by {axes}{below}{numbers}",
        values=values, axes=_(" and ").join(by), below=below, numbers=numbers,
    )  # fmt: skip


FEWEST, MOST = 3, 12  # rows of a matrix: a table suffices for two, and with more than 12 the numbers are unreadable


def draw_pairs(section: Section, path: Path) -> Figure | None:
    """Draw the matrix of all pairs for the first score that is compared in pairs."""
    if section.recorded.show.table.columns is not None:
        return None
    for value, pairs in section.pairs.items():
        if FEWEST <= len(pairs.labels) <= MOST and np.isfinite(pairs.p).any():
            higher = next(score.higher for score in section.scores if score.value == value)
            with style():
                labels, drawn = list(pairs.labels), matrix(pairs, value, higher)
                caption = _(
                    "All pairs of rows in {value}: the sign of row minus column and its p-value, adjusted "
                    "for all pairs: {names}{numbers}",
                    value=heading(value), names=labels_in_words(labels), numbers=renamed(labels, "row"),
                )  # fmt: skip
                apart, count = int(np.sum(np.triu(pairs.p <= ALPHA, 1))), len(labels) * (len(labels) - 1) // 2
                found = _("{apart} of {count} pairs differ in {value}.", apart=apart, count=count, value=heading(value))
                return save(drawn, path.with_name(f"{path.name}-pairs.svg"), caption, found)
    return None


@using("en")
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
    without_frame(axis)
    axis.set_title(f"{heading(value)}: row − column, p of all pairs together", loc="right")
    drawn.supxlabel(legend(higher), fontsize=7)
    return drawn


def square(axis: Any, i: int, j: int, difference: float, p: float, higher: bool | None) -> None:
    """Draw one pair, coloured by which row is better if the difference is significant."""
    significant = np.isfinite(p) and p <= ALPHA
    better = higher is not None and (difference > 0) == higher
    colour = "#EEEEEE" if not significant else "#BBBBBB" if higher is None else BETTER if better else WORSE
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
    "better": ("^", BETTER),
    "worse": ("v", WORSE),
    "equivalent": ("D", GREY),
    "baseline": ("|", "black"),
    "reference": ("x", GREY),
}  # other verdicts: a hollow circle


def draw_forest(overview: Overview, path: Path) -> Figure | None:
    """Draw the forest plot; its labels stay SVG text, so a browser can draw any script."""
    if not overview.rows:
        return None
    with style({"svg.fonttype": "none"}):
        drawn = forest_figure(overview)
        rows = [
            _("{label} {size} {verdict}", label=row.name or row.label, size=overview.size(row), verdict=row.word)
            for row in overview.rows
        ]
        caption = _(
            "Differences in {score} to the baseline with 95 % intervals, best first: {rows}",
            score=overview.score, rows=_("; ").join(rows),
        )  # fmt: skip
        return save(drawn, path, caption)


def forest_figure(overview: Overview) -> Any:
    """Draw on white, so that it is legible on any background: a line for each row, and one for each question."""
    lines = [line for group in overview.groups for line in ([group.title] if group.title else []) + group.rows]
    drawn = canvas(LINE * len(lines) + 0.75, width=7.2)
    axis = drawn.subplots()
    if overview.margin is not None:
        axis.axvspan(-overview.margin, overview.margin, color="#E4E7EB", linewidth=0, zorder=0)
    axis.axvline(0, color="black", linewidth=0.6, zorder=1)
    names, numbers = list[str](), list[str]()
    for position, row in enumerate(lines):
        if isinstance(row, str):
            names.append(wrapped(row, LETTERS + 10, 1))
            numbers.append("")
            continue
        names.append(wrapped(row.name or row.label, LETTERS, 1))
        numbers.append("  ".join(each for each in (overview.size(row), row.word, overview.level(row)) if each))
        marker, colour = MARKS.get(row.verdict, ("o", GREY))
        face = colour if row.verdict in MARKS else "white"
        axis.plot(row.seeds, [position + 0.28] * len(row.seeds), "o", color=GREY, markersize=2.2, markeredgewidth=0)
        width = row.half_width if math.isfinite(row.half_width) else 0
        look = {"fmt": marker, "color": colour, "markersize": 5, "markerfacecolor": face}
        axis.errorbar(row.difference, position, xerr=width, **look)
    axis.set(xlim=overview.ends, ylim=(len(lines) - 0.4, -0.6), xticks=overview.ticks)
    axis.set_yticks(range(len(lines)), names)
    for label, row in zip(axis.get_yticklabels(), lines, strict=True):
        label.set_fontweight("bold" if isinstance(row, str) else "normal")
    axis.tick_params("y", length=0)
    axis.spines["left"].set_visible(False)
    right = axis.secondary_yaxis("right")
    right.set_yticks(range(len(lines)), numbers)
    right.tick_params("y", length=0)
    right.spines["right"].set_visible(False)
    axis.set_xlabel(overview.heads[0])
    return drawn
