"""Figures of lines: training losses, and gradient norms of a loss and of its terms."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.ticker import LogLocator

from contrastive.runs.recorded import RecordedRow, RecordedSection
from reports.figures import canvas
from reports.messages import _, listed
from reports.study import Results

TOGETHER = 8  # lines in a panel; more lines get further panels on the same scale
ACROSS = 2  # panels side by side
SMOOTHING = 10  # steps in the running mean of a curve
FEWEST = 3  # points: shorter lines are not drawn
# settings on which the floor of a loss, its smallest possible value, depends
FLOOR = ("loss", "view", "k", "temperature", "training.batch_size", "training.token_budget")


@dataclass(frozen=True)
class LinePanel:
    """The lines of one panel."""

    title: str  # in English, which the figures' font can draw
    tables: dict[int, pd.DataFrame]  # number of the configuration → frame with one column per seed


def draw_curves(section: RecordedSection, results: Results, path: Path) -> canvas.Figure | None:
    """Draw the loss (less its floor, where floors differ between rows) and the gradient norm."""
    curves = section_curves(section, results)
    every_row = list(range(len(section.rows)))
    chosen = [*loss_panels(section, curves), ("gradient_norm", "gradient norm", every_row)]
    panels = [line_panel(key, title, rows, section, curves) for key, title, rows in chosen]
    panels = [panel for panel in panels if panel.tables]
    if not panels:
        return None
    what = _(" and ").join([panel.title for panel in panels])
    smoothed = _("running mean over {smoothing} steps; ", smoothing=SMOOTHING)
    labels = [row.label for row in section.rows]
    caption = last_values(panels[0], labels, panels[0].title)
    with canvas.style():
        drawn = draw_lines(panels, labels)
        return canvas.save(drawn, path.with_name(f"{path.name}-curves.png"), described(what, labels, smoothed), caption)


def draw_terms(section: RecordedSection, results: Results, path: Path) -> canvas.Figure | None:
    """Draw the gradient norm of each term alone, all on one scale."""
    curves, every_row = section_curves(section, results), list(range(len(section.rows)))
    keys = sorted(key for key in curves["key"].unique() if key.startswith("gradient_norm."))
    panels = [line_panel(key, key.removeprefix("gradient_norm."), every_row, section, curves) for key in keys]
    panels = [panel for panel in panels if panel.tables]  # terms without finite values have no line
    if not panels:
        return None
    what = _("gradient norms of the loss terms {names}", names=_(", ").join([panel.title for panel in panels]))
    labels = [row.label for row in section.rows]
    caption = last_values(panels[0], labels, _("gradient norm of {term}", term=panels[0].title))
    with canvas.style():
        drawn = draw_lines(panels, labels, one_log_scale=True)
        return canvas.save(drawn, path.with_name(f"{path.name}-gradients.png"), described(what, labels, ""), caption)


def described(what: str, labels: list[str], smoothed: str) -> str:
    return _(
        "Against the optimizer step, {what} ({mean}mean over seeds, band from the lowest to the highest): "
        "{names}",
        what=what, mean=smoothed, names=canvas.labels_in_words(labels),
    )  # fmt: skip


def last_values(panel: LinePanel, labels: list[str], what: str) -> str:
    """Say where the lines of a panel end, highest first."""
    ends = {labels[number]: float(table.iloc[-1].mean()) for number, table in panel.tables.items()}
    highest_first = sorted(ends, key=lambda label: -ends[label])
    rows = [_("{label} {score}", label=label, score=f"{ends[label]:.3g}") for label in highest_first]
    return _("Training curves, mean over seeds; {what} at the end: {rows}.", what=what, rows=listed(rows))


def loss_panels(section: RecordedSection, curves: pd.DataFrame) -> list[tuple[str, str, list[int]]]:
    """Return key, title and row numbers of each loss panel.

    The floor of a contrastive term is its smallest possible value. Where floors differ, raw losses cannot be compared,
    so the excess over the floor is shown.
    """
    rows = section.rows
    numbers = list(range(len(rows)))
    if not any(len({(row.settings or {}).get(name) for row in rows}) > 1 for name in FLOOR):
        return [("loss", "training loss", numbers)]
    terms = sorted(key for key in curves["key"].unique() if key.startswith("excess."))
    rows_of = {key: [i for i in numbers if has(key, rows[i], curves)] for key in terms}
    rest = [i for i in numbers if not any(i in members for members in rows_of.values())]
    panels: list[tuple[str, str, list[int]]] = [
        (key, f"{key.removeprefix('excess.')}: loss − floor", rows_of[key]) for key in terms
    ]
    title = "training loss, floor unknown" if terms else "training loss"
    return panels + ([("loss", title, rest)] if rest else [])


def has(key: str, row: RecordedRow, curves: pd.DataFrame) -> bool:
    return bool(((curves["key"] == key) & curves["cell"].isin(row.cells)).any())


def line_panel(key: str, title: str, rows: list[int], section: RecordedSection, curves: pd.DataFrame) -> LinePanel:
    points = curves[curves["key"] == key]
    width = 1 if key.startswith("gradient_norm.") else SMOOTHING  # norms of terms are measured only now and then
    tables = {number: smoothed_table(points[points["cell"].isin(section.rows[number].cells)], width) for number in rows}
    return LinePanel(title, {number: table for number, table in tables.items() if len(table) >= FEWEST})


def smoothed_table(points: pd.DataFrame, width: int) -> pd.DataFrame:
    wide = points.pivot_table(index="step", columns="cell", values="value").sort_index()
    return wide.rolling(width, min_periods=1).mean()


def section_curves(section: RecordedSection, results: Results) -> pd.DataFrame:
    return results.curves[results.curves["cell"].isin([cell for row in section.rows for cell in row.cells])]


def draw_lines(panels: list[LinePanel], labels: list[str], *, one_log_scale: bool = False) -> Any:
    """Draw the mean over seeds in a band from the lowest to the highest seed.

    More than TOGETHER configurations are drawn in groups, one below the other; a panel has one scale in all groups.
    """
    shown = sorted({number for panel in panels for number in panel.tables})
    groups = [shown[i : i + TOGETHER] for i in range(0, len(shown), TOGETHER)]
    names = canvas.drawable(labels)
    parts = [[panel for panel in panels if set(group) & set(panel.tables)] for group in groups]
    heights = [
        0.4 * canvas.WIDTH * -(-len(part) // ACROSS) + canvas.legend_height([names[number] for number in group])
        for part, group in zip(parts, groups, strict=True)
    ]
    drawn = canvas.blank(sum(heights))
    subfigures = drawn.subfigures(len(groups), 1, height_ratios=heights, squeeze=False)[:, 0]
    axes: dict[str, list[Any]] = {}  # by scale
    for subfigure, part, group in zip(subfigures, parts, groups, strict=True):
        for panel, axis in zip(part, draw_group(subfigure, part, group, names), strict=True):
            axes.setdefault("" if one_log_scale else panel.title, []).append(axis)
    positive = all((table > 0).to_numpy().all() for panel in panels for table in panel.tables.values())
    for same_scale in axes.values():
        rescale(same_scale, one_log_scale and positive)
    return drawn


def draw_group(subfigure: Any, panels: list[LinePanel], group: list[int], names: list[str]) -> list[Any]:
    """Draw a group of configurations in each panel, with one legend below; return the panels' axes."""
    columns = min(ACROSS, len(panels))
    axes = list(subfigure.subplots(-(-len(panels) // columns), columns, squeeze=False).flat)
    handles = {}
    for axis, panel in zip(axes, panels, strict=False):
        axis.set(title=panel.title, xlabel="optimizer step")
        for number, colour in zip(group, canvas.COLOURS, strict=False):
            if (table := panel.tables.get(number)) is not None:
                (handles[number],) = axis.plot(table.index, table.mean(axis=1), color=colour)
                band = {"color": colour, "alpha": 0.18, "linewidth": 0}
                axis.fill_between(table.index, table.min(axis=1), table.max(axis=1), **band)
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    canvas.legend_below(subfigure, [handles[number] for number in group], [names[number] for number in group])
    return axes[: len(panels)]


def rescale(axes: list[Any], log: bool) -> None:
    """Give all axes one scale: logarithmic, or linear with 0."""
    low = min(axis.dataLim.y0 for axis in axes)
    high = max(axis.dataLim.y1 for axis in axes)
    if not np.isfinite([low, high]).all():
        return
    for axis in axes:
        if log:
            axis.set_yscale("log")
            axis.set_ylim(low / 1.2, high * 1.2)
            axis.yaxis.set_major_locator(LogLocator(subs=(1,) if high > 100 * low else (1, 2, 5)))
            axis.yaxis.set_major_formatter(
                "{x:g}"
            )  # the default formatter writes formulas, which canvas.style() turns off
            axis.yaxis.set_minor_formatter("")
        else:
            padding = 0.05 * (high - min(low, 0) or 1)
            axis.set_ylim(low - padding if low < 0 else 0, high + padding)
