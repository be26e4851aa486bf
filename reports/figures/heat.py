"""A pivot as a heat map: each cell its mean ± half-width; a value has one colour scale in the whole report."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from reports.compare import RowScore, Section
from reports.figures.canvas import (
    WIDTH,
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
from reports.load import Results
from reports.markdown import heading, score_text, symbol
from reports.messages import Said, _, joined
from reports.tables import head

COLOURS = "cividis"  # the same with any colour vision
MOST = 7  # columns whose numbers can be read 420 pixels wide
CELLS = 60  # of all panels: of more, the table says it
LINE = 0.36  # inches of a line of cells
Key = tuple[tuple[str, str], ...]
Axes = tuple[str, str]  # down, across
Panel = tuple[str, Key, list[RowScore]]


def draw_heat(section: Section, results: Results, path: Path) -> Figure | None:
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
        return save(drawn, path.with_name(f"{path.name}-heat.svg"), heat_caption(panels, axes))


def directions(section: Section, scores: list[RowScore]) -> Axes | None:
    """The axes that go down and across, turned where that is narrower; None where a pivot has no second one."""
    across, own = str(section.recorded.show.table.columns), [score.row.axes for score in scores]
    names = dict.fromkeys(name for axes in own for name in axes if name != across)
    down = section.recorded.show.table.rows or next(iter(names), None)
    inside = [axes for axes in own if across in axes and down in axes]
    if down is None or not inside:
        return None
    lines, columns = ({axes[name] for axes in inside} for name in (down, across))
    turned = len(columns) > max(MOST, len(lines))
    return (across, down) if turned else (down, across)


def within(score: RowScore, axes: Axes) -> bool:
    """Whether a row has a place in the pivot."""
    return all(name in score.row.axes for name in axes)


def heat_panels(scores: list[RowScore], axes: Axes) -> list[tuple[Key, list[RowScore]]]:
    """A panel for each choice of the axes that go neither down nor across; what has no place in any, in each."""
    keys = [tuple((n, str(v)) for n, v in score.row.axes.items() if n not in axes) for score in scores]
    chosen = dict.fromkeys(key for key, score in zip(keys, scores, strict=True) if within(score, axes))
    return [
        (
            key,
            [score for own, score in zip(keys, scores, strict=True) if own == key or not within(score, axes)],
        )
        for key in chosen
    ]


def heat_figure(panels: list[Panel], axes: Axes, results: Results) -> Any:
    heights = [LINE * heat_lines(part, axes) + 0.62 for _, _, part in panels]
    scales = {value: scale(value, results) for value, _, _ in panels}
    columns = max(len(axis_settings(part, axes[1], axes)) for _, _, part in panels)
    drawn = canvas(sum(heights), max(WIDTH, 1.2 + 0.5 * columns))  # so wide that numbers fit their cells
    frames = drawn.subplots(len(panels), 1, height_ratios=heights, squeeze=False)[:, 0]
    for axis, (value, key, part) in zip(frames, panels, strict=True):
        rest = ", ".join(f"{symbol(name)}={setting}" for name, setting in key)
        axis.set_title(", ".join([str(head(value)), *drawable([rest] if rest else [], "part")]))
        heat_panel(axis, part, axes, scales[value])
        bar = drawn.colorbar(shades(scales[value]), ax=axis, fraction=0.05, pad=0.01)
        in_shown_unit(bar.ax.yaxis, value)
    return drawn


def heat_lines(part: list[RowScore], axes: Axes) -> int:
    return len(axis_settings(part, axes[0], axes)) + sum(not within(score, axes) for score in part)


def axis_settings(part: list[RowScore], name: str, axes: Axes) -> list[Any]:
    return list(dict.fromkeys(score.row.axes[name] for score in part if within(score, axes)))


def scale(value: str, results: Results) -> Normalize:
    """From the lowest to the highest mean of the report's rows, whichever section shows them."""
    columns = [name for name in results.scores.columns if name == value or name.endswith(f"/{value}")]
    rows = [row.cells for section in results.grid.sections for row in section.rows]
    numbers = np.repeat(np.arange(len(rows)), [len(cells) for cells in rows])
    cells = results.scores[columns].reindex([cell for cells in rows for cell in cells])
    means = cells.groupby(numbers).mean().to_numpy(float).ravel()
    means = means[np.isfinite(means)]
    return Normalize(float(means.min()), float(means.max())) if len(means) else Normalize(0, 1)


def heat_panel(axis: Any, part: list[RowScore], axes: Axes, colours: Normalize) -> None:
    """Cells from the top, and below them, over the whole width, what has no place in the pivot."""
    down, across = (axis_settings(part, name, axes) for name in axes)
    names = drawable([str(name) for name in down], symbol(axes[0]))
    for score in part:
        if within(score, axes):
            top, left, width = down.index(score.row.axes[axes[0]]), across.index(score.row.axes[axes[1]]), 1
        else:
            top, left, width = len(names), 0, len(across)
            names.append(drawable([score.row.label], "outside")[0])
        heat_cell(axis, top, left, width, score, colours)
    letters = max(7, 44 // len(across))
    heads = [wrapped(name, letters) for name in drawable([str(name) for name in across], symbol(axes[1]))]
    axis.set_xticks(np.arange(len(across)) + 0.5, heads)
    axis.set_yticks(np.arange(len(names)) + 0.5, [wrapped(name, 16) for name in names])
    axis.set(xlim=(0, len(across)), ylim=(len(names), 0), xlabel=symbol(axes[1]), ylabel=symbol(axes[0]))
    axis.tick_params(length=0)
    for spine in axis.spines.values():
        spine.set_visible(False)


def heat_cell(axis: Any, top: int, left: int, width: int, score: RowScore, colours: Normalize) -> None:
    colour: Any = shades(colours).to_rgba(score.mean)  # type: ignore[arg-type]
    axis.fill_between([left, left + width], top, top + 1, facecolor=colour, linewidth=0.8, edgecolor="white")
    text = score_text(score.value, score.mean, score.half_width).replace(" ± ", "\n± ")
    light = 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2] > 0.5
    axis.text(
        left + width / 2, top + 0.5, text, ha="center", va="center", color="black" if light else "white", fontsize=6.5
    )


def shades(colours: Normalize) -> ScalarMappable:
    return ScalarMappable(colours, COLOURS)


def heat_caption(panels: list[Panel], axes: Axes) -> Said:
    values = joined(dict.fromkeys(heading(value) for value, _key, _part in panels), _(", "))
    scores = [score for _value, _key, part in panels for score in part]
    levels = [list(map(str, axis_settings(scores, name, axes))) for name in axes]
    outside = list(dict.fromkeys(score.row.label for score in scores if not within(score, axes)))
    by = [
        _("{axis} ({levels})", axis=symbol(name), levels=joined(own, _(", ")))
        for name, own in zip(axes, levels, strict=True)
    ]
    numbers = joined([renamed(own, symbol(name)) for name, own in zip(axes, levels, strict=True)], "")
    below = _(", and below it {rows}", rows=labels_in_words(outside)) if outside else ""
    return _(
        "Heat map of {values}, mean over seeds ± half-width, by {axes}{below}{numbers}",
        values=values, axes=joined(by, _(" and ")), below=below, numbers=numbers,
    )  # fmt: skip
