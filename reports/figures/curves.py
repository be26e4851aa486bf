"""Figures of lines: training losses, and gradient norms of a loss and of its terms."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.ticker import LogLocator

from contrastive.runs.recorded import RecordedSection
from reports.figures import canvas
from reports.messages import _, listed
from reports.study import Results

DASHES = ("-", "--", ":", "-.")  # with the colours, 32 configurations can be told apart
ACROSS = 2  # panels side by side
SMOOTHING = 10  # steps in the running mean of a curve
FEWEST = 3  # points: shorter lines are not drawn
# settings on which the floor of a loss, its smallest possible value, depends
FLOOR = ("loss", "view", "k", "temperature", "training.batch_size")


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
    panels = line_panels(chosen, section, curves)
    if not panels:
        return None
    what = _(" and ").join([panel.title for panel in panels])
    smoothed = _("running mean over {smoothing} steps; ", smoothing=SMOOTHING)
    labels, path = [row.label for row in section.rows], path.with_name(f"{path.name}-curves.png")
    with canvas.style():
        caption = last_values(panels[0], labels, panels[0].title)
        return canvas.save(draw_lines(panels, labels), path, described(what, labels, smoothed), caption)


def draw_terms(section: RecordedSection, results: Results, path: Path) -> canvas.Figure | None:
    """Draw the gradient norm of each term alone, all on one scale."""
    curves, every_row = section_curves(section, results), list(range(len(section.rows)))
    keys = sorted(key for key in curves["key"].unique() if key.startswith("gradient_norm."))
    panels = line_panels([(key, key.removeprefix("gradient_norm."), every_row) for key in keys], section, curves)
    if not panels:
        return None
    what = _("gradient norms of the loss terms {names}", names=_(", ").join([panel.title for panel in panels]))
    labels, path = [row.label for row in section.rows], path.with_name(f"{path.name}-gradients.png")
    with canvas.style():
        caption = last_values(panels[0], labels, _("gradient norm of {term}", term=panels[0].title))
        drawn = draw_lines(panels, labels, one_log_scale=True)
        return canvas.save(drawn, path, described(what, labels, ""), caption)


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
    panels, rest = list[tuple[str, str, list[int]]](), set(numbers)
    for key in sorted(key for key in curves["key"].unique() if key.startswith("excess.")):
        measured = set(curves["cell"][curves["key"] == key])
        of_key = [number for number in numbers if measured & set(rows[number].cells)]
        panels.append((key, f"{key.removeprefix('excess.')}: loss − floor", of_key))
        rest -= set(of_key)
    title = "training loss, floor unknown" if panels else "training loss"
    return panels + ([("loss", title, sorted(rest))] if rest else [])


def line_panels(
    chosen: list[tuple[str, str, list[int]]], section: RecordedSection, curves: pd.DataFrame
) -> list[LinePanel]:
    """Return the panels that have a line to draw; none if there are more rows than can be told apart.

    `chosen`: key, title and rows of each panel.
    """
    panels = list[LinePanel]()
    for key, title, rows in chosen:
        width = 1 if key.startswith("gradient_norm.") else SMOOTHING  # norms of terms are measured only now and then
        points, tables = curves[curves["key"] == key], dict[int, pd.DataFrame]()
        for number in rows:
            of_row = points[points["cell"].isin(section.rows[number].cells)]
            wide = of_row.pivot_table(index="step", columns="cell", values="value").sort_index()
            if len(wide) >= FEWEST:
                tables[number] = wide.rolling(width, min_periods=1).mean()
        if tables:  # terms without finite values have no line
            panels.append(LinePanel(title, tables))
    shown = {number for panel in panels for number in panel.tables}
    return panels if len(shown) <= len(DASHES) * len(canvas.COLOURS) else []


def section_curves(section: RecordedSection, results: Results) -> pd.DataFrame:
    return results.curves[results.curves["cell"].isin([cell for row in section.rows for cell in row.cells])]


def draw_lines(panels: list[LinePanel], labels: list[str], *, one_log_scale: bool = False) -> Any:
    """Draw the mean over seeds in a band from the lowest to the highest seed, and one legend below all panels."""
    numbers = sorted({number for panel in panels for number in panel.tables})
    names = canvas.drawable(labels)
    shown = [names[number] for number in numbers]
    columns = min(ACROSS, len(panels))
    lines = -(-len(panels) // columns)
    drawn = canvas.blank(0.4 * canvas.WIDTH * lines + canvas.legend_height(shown))
    axes = list(drawn.subplots(lines, columns, squeeze=False, sharey="all" if one_log_scale else "none").flat)
    handles = {}
    for axis, panel in zip(axes, panels, strict=False):
        axis.set(title=panel.title, xlabel="optimizer step")
        for number, table in panel.tables.items():
            position = numbers.index(number)
            colour = canvas.COLOURS[position % len(canvas.COLOURS)]
            dashes = DASHES[position // len(canvas.COLOURS)]
            (handles[number],) = axis.plot(table.index, table.mean(axis=1), color=colour, linestyle=dashes)
            axis.fill_between(table.index, table.min(axis=1), table.max(axis=1), color=colour, alpha=0.18, linewidth=0)
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    values = np.concatenate([table.to_numpy().ravel() for panel in panels for table in panel.tables.values()])
    if one_log_scale and np.nanmin(values) > 0:
        log_scale(axes[0], wide=bool(np.nanmax(values) > 100 * np.nanmin(values)))
    else:
        for axis in axes[: len(panels)]:
            axis.set_ylim(bottom=min(0, axis.dataLim.y0))
    canvas.legend_below(drawn, [handles[number] for number in numbers], shown)
    return drawn


def log_scale(axis: Any, wide: bool) -> None:
    """Make the scale of an axis, and of those that share it, logarithmic."""
    axis.set_yscale("log")
    axis.yaxis.set_major_locator(LogLocator(subs=(1,) if wide else (1, 2, 5)))
    axis.yaxis.set_major_formatter("{x:g}")  # the default one writes formulas, which canvas.style() turns off
    axis.yaxis.set_minor_formatter("")
