"""Lines over a common axis, a colour a configuration: never more in a panel than there are colours."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.ticker import LogLocator

from reports.figures.canvas import COLOURS, WIDTH, canvas, drawable, wrapped
from reports.messages import Said

TOGETHER = 8  # lines in a panel; further ones stand in further panels, on the same scale
ACROSS = 2
LEGEND = 76  # letters in a line of it
Scale = Literal["from zero", "free", "log"]


@dataclass(frozen=True)
class LinePanel:
    """`tables`: number of the configuration → a frame with a column a seed."""

    title: Said
    tables: dict[int, pd.DataFrame]


def draw_lines(
    panels: Sequence[LinePanel],
    labels: list[str],
    across: str,
    *,
    kind: str = "row",
    one_scale: bool = False,
    scale: Scale = "from zero",
) -> Any:
    """Mean over seeds in a band from the lowest to the highest; each panel's scale is that of all its groups."""
    shown = sorted({number for panel in panels for number in panel.tables})
    groups = [shown[i : i + TOGETHER] for i in range(0, len(shown), TOGETHER)]
    names = {number: wrapped(name, LEGEND - 10, 1) for number, name in enumerate(drawable(labels, kind))}
    parts = [[panel for panel in panels if set(group) & set(panel.tables)] for group in groups]
    heights = [
        height(len(held), legend_lines([names[number] for number in group]))
        for held, group in zip(parts, groups, strict=True)
    ]
    drawn = canvas(sum(heights))
    subfigures = drawn.subfigures(len(groups), 1, height_ratios=heights, squeeze=False)[:, 0]
    axes: dict[str, list[Any]] = {}
    for subfigure, held, group in zip(subfigures, parts, groups, strict=True):
        for panel, axis in zip(held, draw_group(subfigure, held, group, names, across), strict=True):
            axes.setdefault("" if one_scale else str(panel.title), []).append(axis)
    for same in axes.values():
        rescale(same, scale)
    return drawn


def height(panels: int, legend: int) -> float:
    return -(-panels // ACROSS) * (WIDTH * 0.4) + 0.13 * legend + 0.1


def draw_group(
    part: Any, panels: Sequence[LinePanel], group: list[int], names: dict[int, str], across: str
) -> list[Any]:
    columns = min(ACROSS, len(panels))
    axes = list(part.subplots(-(-len(panels) // columns), columns, squeeze=False).flat)
    handles = {}
    for axis, panel in zip(axes, panels, strict=False):
        axis.set_title(str(panel.title))
        axis.set_xlabel(across)
        for position, number in enumerate(group):
            if number in panel.tables:
                handles[number] = draw_line(axis, panel.tables[number], COLOURS[position])
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    shown = [names[number] for number in group]
    part.legend(
        [handles[number] for number in group],
        shown,
        loc="outside lower center",
        ncols=legend_columns(shown),
        columnspacing=1.2,
        handlelength=1.4,
    )
    return axes[: len(panels)]


def draw_line(axis: Any, table: pd.DataFrame, colour: str) -> Any:
    (line,) = axis.plot(table.index, table.mean(axis=1), color=colour)
    if table.shape[1] > 1:
        axis.fill_between(table.index, table.min(axis=1), table.max(axis=1), color=colour, alpha=0.18, linewidth=0)
    return line


def rescale(axes: list[Any], scale: Scale) -> None:
    """One scale for all of them; a logarithmic one only where nothing is zero."""
    drawn = [line.get_ydata() for axis in axes for line in axis.get_lines()]
    drawn += [path.vertices[:, 1] for axis in axes for band in axis.collections for path in band.get_paths()]
    values = np.concatenate([np.asarray(y, float) for y in drawn]) if drawn else np.zeros(0)
    values = values[np.isfinite(values)]
    if len(values) == 0:
        return
    low, high = float(values.min()), float(values.max())
    for axis in axes:
        if scale == "log" and low > 0:
            axis.set_yscale("log")
            axis.set_ylim(low / 1.2, high * 1.2)
            axis.yaxis.set_major_locator(LogLocator(subs=(1,) if high > 100 * low else (1, 2, 5)))
            axis.yaxis.set_major_formatter("{x:g}")  # its own formatter needs an interpreter of formulas
            axis.yaxis.set_minor_formatter("")
        else:
            bottom = low if scale == "free" else min(low, 0.0)
            rest = 0.05 * (high - bottom or 1.0)
            axis.set_ylim(bottom - (0 if bottom == 0 else rest), high + rest)


def legend_columns(names: list[str]) -> int:
    return max(1, min(4, LEGEND // (max(map(len, names), default=1) + 5)))


def legend_lines(names: list[str]) -> int:
    return -(-len(names) // legend_columns(names))
