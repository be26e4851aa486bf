"""Figures of lines: training curves, gradient norms of terms, singular values, expected best of n rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.ticker import LogLocator

from contrastive.runs.recorded import RecordedRow, RecordedSection
from reports.compare import Section
from reports.figures.canvas import (
    COLOURS,
    WIDTH,
    Figure,
    canvas,
    drawable,
    labels_in_words,
    renamed,
    save,
    style,
    wrapped,
)
from reports.guards.rows import listed
from reports.markdown import heading
from reports.messages import N_, _
from reports.statistics.summary import expected_best
from reports.study import Results

TOGETHER = 8  # lines in a panel; more lines get further panels on the same scale
ACROSS = 2  # panels side by side
LEGEND = 76  # letters in a line of the legend
Scale = Literal["from zero", "free", "log"]


@dataclass(frozen=True)
class LinePanel:
    """The lines of one panel."""

    title: str  # in English, which the figures' font can draw
    tables: dict[int, pd.DataFrame]  # number of the configuration → frame with one column per seed


def draw_lines(
    panels: Sequence[LinePanel],
    labels: list[str],
    across: str,
    *,
    kind: str = "row",
    one_scale: bool = False,
    scale: Scale = "from zero",
) -> Any:
    """Draw the mean over seeds in a band from the lowest to the highest seed.

    More than TOGETHER configurations are drawn in groups, one below the other; a panel has one scale in all groups.
    """
    shown = sorted({number for panel in panels for number in panel.tables})
    groups = [shown[i : i + TOGETHER] for i in range(0, len(shown), TOGETHER)]
    names = {number: wrapped(name, LEGEND - 10, 1) for number, name in enumerate(drawable(labels, kind))}
    parts = [[panel for panel in panels if set(group) & set(panel.tables)] for group in groups]
    heights = [
        height(len(part), legend_lines([names[number] for number in group]))
        for part, group in zip(parts, groups, strict=True)
    ]
    drawn = canvas(sum(heights))
    subfigures = drawn.subfigures(len(groups), 1, height_ratios=heights, squeeze=False)[:, 0]
    axes: dict[str, list[Any]] = {}
    for subfigure, part, group in zip(subfigures, parts, groups, strict=True):
        for panel, axis in zip(part, draw_group(subfigure, part, group, names, across), strict=True):
            axes.setdefault("" if one_scale else panel.title, []).append(axis)
    for same_scale in axes.values():
        rescale(same_scale, scale)
    return drawn


def height(panels: int, legend: int) -> float:
    """Return the height in inches of so many panels above a legend of so many lines."""
    return -(-panels // ACROSS) * (WIDTH * 0.4) + 0.13 * legend + 0.1


def draw_group(
    subfigure: Any, panels: Sequence[LinePanel], group: list[int], names: dict[int, str], across: str
) -> list[Any]:
    """Draw a group of configurations in each panel, with one legend below; return the panels' axes."""
    columns = min(ACROSS, len(panels))
    axes = list(subfigure.subplots(-(-len(panels) // columns), columns, squeeze=False).flat)
    handles = {}
    for axis, panel in zip(axes, panels, strict=False):
        axis.set_title(panel.title)
        axis.set_xlabel(across)
        for position, number in enumerate(group):
            if number in panel.tables:
                handles[number] = draw_line(axis, panel.tables[number], COLOURS[position])
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    shown = [names[number] for number in group]
    subfigure.legend(
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
    """Give all axes one scale: logarithmic if asked for and all values are positive; else linear, from 0 unless
    "free"."""
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
            axis.yaxis.set_major_formatter("{x:g}")  # the default formatter writes formulas, which style() turns off
            axis.yaxis.set_minor_formatter("")
        else:
            bottom = low if scale == "free" else min(low, 0.0)
            padding = 0.05 * (high - bottom or 1.0)
            axis.set_ylim(bottom - (0 if bottom == 0 else padding), high + padding)


def legend_columns(names: list[str]) -> int:
    return max(1, min(4, LEGEND // (max(map(len, names), default=1) + 5)))


def legend_lines(names: list[str]) -> int:
    return -(-len(names) // legend_columns(names))


SMOOTHING = 10  # steps in the running mean of a curve
FEWEST = 3  # points: shorter lines are not drawn
# settings on which the floor of a loss, its smallest possible value, depends
FLOOR = ("loss", "view", "k", "temperature", "training.batch_size", "training.token_budget")


def draw_curves(section: RecordedSection, results: Results, path: Path) -> Figure | None:
    """Draw the loss (less its floor, where floors differ between rows) and the gradient norm."""
    curves = section_curves(section, results)
    keys = [*loss_panels(section, curves), ("gradient_norm", "gradient norm", list(range(len(section.rows))))]
    panels = [panel for key, title, rows in keys if (panel := panel_of(key, title, rows, section, curves)).tables]
    what = _(" and ").join([panel.title for panel in panels])
    return saved_curves(section, panels, path.with_name(f"{path.name}-curves.png"), what, SMOOTHING)


def draw_terms(section: RecordedSection, results: Results, path: Path) -> Figure | None:
    """Draw the gradient norm of each term alone, all on one scale."""
    curves, rows = section_curves(section, results), list(range(len(section.rows)))
    keys = sorted(key for key in curves["key"].unique() if key.startswith("gradient_norm."))
    panels = [panel_of(key, key.removeprefix("gradient_norm."), rows, section, curves) for key in keys]
    panels = [panel for panel in panels if panel.tables]  # terms without finite values have no line
    what = _("gradient norms of the loss terms {names}", names=_(", ").join([panel.title for panel in panels]))
    path = path.with_name(f"{path.name}-gradients.png")
    return saved_curves(section, panels, path, what, 1, N_("gradient norm of {term}"), one_scale=True, scale="log")


def saved_curves(
    section: RecordedSection,
    panels: list[LinePanel],
    path: Path,
    what: str,
    smoothing: int,
    first: str = "",
    **how: Any,
) -> Figure | None:
    if not panels:
        return None
    labels = [row.label for row in section.rows]
    mean = _("running mean over {smoothing} steps; ", smoothing=smoothing) if smoothing > 1 else ""
    caption = _(
        "Against the optimizer step, {what} ({mean}mean over seeds, band from the lowest to the highest): "
        "{names}{numbers}",
        what=what, mean=mean, names=labels_in_words(labels), numbers=renamed(labels, "row"),
    )  # fmt: skip
    with style():
        said = last_values(panels[0], labels, _(first, term=panels[0].title) if first else panels[0].title)
        return save(draw_lines(panels, labels, "optimizer step", **how), path, caption, said)


def last_values(panel: LinePanel, labels: list[str], what: str) -> str:
    """Say where the lines of a panel end, highest first."""
    ends = {labels[number]: float(table.iloc[-1].mean()) for number, table in panel.tables.items()}
    said = [
        _("{label} {score}", label=label, score=f"{ends[label]:.3g}") for label in sorted(ends, key=lambda x: -ends[x])
    ]
    return _("Training curves, mean over seeds; {what} at the end: {rows}.", what=what, rows=listed(said))


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


def panel_of(key: str, title: str, rows: list[int], section: RecordedSection, curves: pd.DataFrame) -> LinePanel:
    points = curves[curves["key"] == key]
    width = 1 if key.startswith("gradient_norm.") else SMOOTHING  # norms of terms are measured only now and then
    tables = {number: smoothed_table(points[points["cell"].isin(section.rows[number].cells)], width) for number in rows}
    return LinePanel(title, {number: table for number, table in tables.items() if len(table) >= FEWEST})


def smoothed_table(points: pd.DataFrame, width: int) -> pd.DataFrame:
    wide = points.pivot_table(index="step", columns="cell", values="value").sort_index()
    return wide.rolling(width, min_periods=1).mean()


def section_curves(section: RecordedSection, results: Results) -> pd.DataFrame:
    return results.curves[results.curves["cell"].isin([cell for row in section.rows for cell in row.cells])]


FEWEST_ROWS = 4  # with fewer rows there is no search to show


def draw_search(section: Section, path: Path) -> Figure | None:
    """Draw the expected best of n rows by the first compared score, without rows that lack a seed."""
    value = next(iter(section.tested), "")
    scores = [score for score in section.scores if score.value == value and score.complete and not score.row.variant]
    if len(scores) < FEWEST_ROWS:
        return None
    name = heading(value)
    table = best_of_n(np.array([score.mean for score in scores]), scores[0].higher is not False)
    with style():
        panel = LinePanel(f"expected best {name}", {0: table})
        drawn = draw_lines([panel], [section.recorded.title], "rows tried", kind="section", scale="free")
        caption = _("Expected best {value} by the number of configurations drawn at random and tried", value=name)
        return save(drawn, path.with_name(f"{path.name}-search.svg"), caption, _("{words}.", words=caption))


def best_of_n(means: np.ndarray, higher: bool) -> pd.DataFrame:
    sign = 1 if higher else -1
    return pd.DataFrame({"best": sign * expected_best(sign * means)}, index=np.arange(1, len(means) + 1))


SPECTRUM = "test.top_singular_share"  # the score whose values per text are the whole spectrum
UNUSED = 1e-4  # singular values below this share of the largest are left out


def draw_spectra(section: RecordedSection, results: Results, path: Path) -> Figure | None:
    tables = {number: table for number, row in enumerate(section.rows) if len(table := singular_values(row, results))}
    if not tables:
        return None
    labels = [row.label for row in section.rows]
    caption = _(
        "Singular values of the centred, normalised test embeddings, largest first, as shares of their "
        "sum (mean over seeds, band from the lowest to the highest): {names}{others}",
        names=labels_in_words([labels[number] for number in tables]), others=renamed(labels, "row"),
    )  # fmt: skip
    panel = LinePanel("singular values, as shares of their sum", tables)
    with style():
        drawn = draw_lines([panel], labels, "place by size", scale="log")
        return save(drawn, path.with_name(f"{path.name}-spectra.png"), caption, _("{words}.", words=caption))


def singular_values(row: RecordedRow, results: Results) -> pd.DataFrame:
    """Return the singular values of a row, rank × seed, without those that are only rounding."""
    by_cell = {cell: each for cell in row.cells if (each := results.per_text(cell, SPECTRUM)) is not None}
    table = pd.DataFrame({cell: pd.Series(np.asarray(each, float)) for cell, each in by_cell.items()})
    table.index = pd.RangeIndex(1, len(table) + 1)
    return table[(table > UNUSED * table.max()).all(axis=1)]
