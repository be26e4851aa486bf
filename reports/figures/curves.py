"""Figures of lines: training losses, and gradient norms of the whole loss and of its terms."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from contrastive.runs.recorded import RecordedSection
from reports.figures import canvas
from reports.messages import _, listed
from reports.study import Results

DASHES = ("-", "--", ":", "-.")  # with the colours, 32 configurations can be told apart
ACROSS = 2  # panels side by side
SMOOTHING = 10  # steps in the running mean of a curve
OF_TERM = "gradient_norm."  # prefix of the norms of single terms, which are measured only now and then
FEWEST = 3  # points: shorter lines are not drawn
# settings on which the floor of a loss, its smallest possible value, depends
FLOOR = ("loss", "view", "k", "temperature", "training.batch_size")


@dataclass(frozen=True)
class LinePanel:
    """The lines of one panel."""

    title: str  # in English, which the figures' font can draw
    tables: dict[int, pd.DataFrame]  # number of the configuration → frame with one column per seed


def draw_curves(section: RecordedSection, results: Results, path: Path) -> canvas.Figure | None:
    """Draw the loss (less its floor, where floors differ between rows), and the gradient norms of it and its terms."""
    curves = results.curves[results.curves["cell"].isin([cell for row in section.rows for cell in row.cells])]
    every_row = list(range(len(section.rows)))
    norms = sorted(key for key in curves["key"].unique() if key.startswith(OF_TERM))
    terms = [(key, f"gradient norm of {key.removeprefix(OF_TERM)}", every_row) for key in norms]
    chosen = [*loss_panels(section, curves), ("gradient_norm", "gradient norm", every_row), *terms]
    panels, labels = line_panels(chosen, section, curves), [row.label for row in section.rows]
    if not panels:
        return None
    alt = _(
        "Against the optimizer step, {what} (running mean over {smoothing} steps, except for terms; mean over seeds, "
        "band from the lowest to the highest): {names}",
        what=_(" and ").join([panel.title for panel in panels]), smoothing=SMOOTHING,
        names=canvas.labels_in_words(labels),
    )  # fmt: skip
    ends = {labels[number]: float(table.iloc[-1].mean()) for number, table in panels[0].tables.items()}
    highest_first = sorted(ends.items(), key=lambda item: -item[1])
    rows = [_("{label} {score}", label=label, score=f"{end:.3g}") for label, end in highest_first]
    caption = _("Training curves, mean over seeds; {what} at the end: {rows}.", what=panels[0].title, rows=listed(rows))
    with canvas.style():
        return canvas.save(draw_lines(panels, labels), path.with_name(f"{path.name}-curves.png"), alt, caption)


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
        width = 1 if key.startswith(OF_TERM) else SMOOTHING
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


def draw_lines(panels: list[LinePanel], labels: list[str]) -> Any:
    """Draw the mean over seeds in a band from the lowest to the highest seed, and one legend below all panels."""
    numbers = sorted({number for panel in panels for number in panel.tables})
    names = canvas.drawable(labels)
    shown = [names[number] for number in numbers]
    columns = min(ACROSS, len(panels))
    lines = -(-len(panels) // columns)
    drawn = canvas.blank(0.4 * canvas.WIDTH * lines + canvas.legend_height(shown))
    axes = list(drawn.subplots(lines, columns, squeeze=False).flat)
    handles = {}
    for axis, panel in zip(axes, panels, strict=False):
        axis.set(title=panel.title, xlabel="optimizer step")
        for number, table in panel.tables.items():
            position = numbers.index(number)
            colour = canvas.COLOURS[position % len(canvas.COLOURS)]
            dashes = DASHES[position // len(canvas.COLOURS)]
            (handles[number],) = axis.plot(table.index, table.mean(axis=1), color=colour, linestyle=dashes)
            axis.fill_between(table.index, table.min(axis=1), table.max(axis=1), color=colour, alpha=0.18, linewidth=0)
        axis.set_ylim(bottom=min(0, axis.dataLim.y0))
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    canvas.legend_below(drawn, [handles[number] for number in numbers], shown)
    return drawn
