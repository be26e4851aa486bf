"""Figures of lines: loss and gradient norms against the step, singular values, the best of so many rows tried."""

from pathlib import Path

import numpy as np
import pandas as pd

from contrastive.runs.recorded import RecordedRow, RecordedSection
from reports.compare import Section
from reports.figures import lines
from reports.figures.canvas import Figure, labels_in_words, renamed, save, style
from reports.load import Results
from reports.markdown import heading
from reports.messages import Said, _, joined
from reports.statistics import expected_best

SMOOTHING = 10  # steps in the running mean of a curve
FEWEST = 3  # points of a line
# What a loss's smallest value depends on.
FLOOR = ("loss", "view", "k", "temperature", "training.batch_size", "training.token_budget")


def draw_curves(section: RecordedSection, results: Results, path: Path) -> Figure | None:
    """Loss, or what it lies above its floor where floors differ, and gradient norm."""
    curves = section_curves(section, results)
    wanted = [*losses(section, curves), ("gradient_norm", "gradient norm", list(range(len(section.rows))))]
    panels = [panel for key, title, rows in wanted if (panel := panel_of(key, title, rows, section, curves)).tables]
    if not panels:
        return None
    names = [panel.title for panel in panels]
    said = curves_caption(section, joined(names, _(" and ")), SMOOTHING)
    with style():
        drawn = lines.draw_lines(panels, labels(section), "optimizer step")
        return save(drawn, path.with_name(f"{path.name}-curves.png"), said)


def draw_terms(section: RecordedSection, results: Results, path: Path) -> Figure | None:
    """The gradient norm of each term alone, all on one scale."""
    curves, rows = section_curves(section, results), list(range(len(section.rows)))
    keys = sorted(key for key in curves["key"].unique() if key.startswith("gradient_norm."))
    panels = [panel_of(key, key.removeprefix("gradient_norm."), rows, section, curves) for key in keys]
    panels = [panel for panel in panels if panel.tables]  # of points that are no numbers there is no line
    if not panels:
        return None
    names = [panel.title for panel in panels]
    what = _("gradient norm of the terms {names}", names=joined(names, _(", ")))
    with style():
        drawn = lines.draw_lines(panels, labels(section), "optimizer step", one_scale=True, scale="log")
        return save(drawn, path.with_name(f"{path.name}-gradients.png"), curves_caption(section, what, 1))


def losses(section: RecordedSection, curves: pd.DataFrame) -> list[tuple[str, Said, list[int]]]:
    """Key, title and rows of each panel: where floors differ, raw losses of contrastive terms are not compared."""
    rows = section.rows
    everyone = list(range(len(rows)))
    if not any(len({(row.settings or {}).get(name) for row in rows}) > 1 for name in FLOOR):
        return [("loss", _("training loss"), everyone)]
    terms = sorted(key for key in curves["key"].unique() if key.startswith("excess."))
    having = {key: [i for i in everyone if has(key, rows[i], curves)] for key in terms}
    rest = [i for i in everyone if not any(i in members for members in having.values())]
    panels: list[tuple[str, Said, list[int]]] = [
        (key, _("{term}: loss − floor", term=key.removeprefix("excess.")), having[key]) for key in terms
    ]
    whole = _("training loss, no floor known") if terms else _("training loss")
    return panels + ([("loss", whole, rest)] if rest else [])


def has(key: str, row: RecordedRow, curves: pd.DataFrame) -> bool:
    return bool(((curves["key"] == key) & curves["cell"].isin(row.cells)).any())


def panel_of(key: str, title: Said, rows: list[int], section: RecordedSection, curves: pd.DataFrame) -> lines.LinePanel:
    points = curves[curves["key"] == key]
    width = 1 if key.startswith("gradient_norm.") else SMOOTHING  # terms are looked at now and then only
    tables = {number: smoothed_table(points[points["cell"].isin(section.rows[number].cells)], width) for number in rows}
    return lines.LinePanel(title, {number: table for number, table in tables.items() if len(table) >= FEWEST})


def smoothed_table(points: pd.DataFrame, width: int) -> pd.DataFrame:
    wide = points.pivot_table(index="step", columns="cell", values="value").sort_index()
    return wide.rolling(width, min_periods=1).mean()


def section_curves(section: RecordedSection, results: Results) -> pd.DataFrame:
    return results.curves[results.curves["cell"].isin([cell for row in section.rows for cell in row.cells])]


def labels(section: RecordedSection) -> list[str]:
    return [row.label for row in section.rows]


def curves_caption(section: RecordedSection, what: Said, smoothing: int) -> Said:
    names = labels_in_words(labels(section))
    others = renamed(labels(section), "row")
    mean = _("running mean over {smoothing} steps; ", smoothing=smoothing) if smoothing > 1 else ""
    return _(

        "Against the optimizer step, {what} ({mean}mean over seeds, band from the lowest to the highest):"
        " {names}{numbers}",
        what=what, mean=mean, names=names, numbers=others,
    )  # fmt: skip


FEWEST_ROWS = 4  # rows: of fewer there is nothing to search


def draw_search(section: Section, path: Path) -> Figure | None:
    """By the first score that is compared; rows that lack a seed are left out."""
    value = next(iter(section.tested), "")
    scores = [score for score in section.scores if score.value == value and score.complete and not score.row.variant]
    if len(scores) < FEWEST_ROWS:
        return None
    name = heading(value)
    table = reached(np.array([score.mean for score in scores]), scores[0].higher is not False)
    with style():
        panel = lines.LinePanel(f"expected best {name}", {0: table})
        drawn = lines.draw_lines([panel], [section.recorded.title], "rows tried", kind="section", scale="free")
        said = _("Expected best {value} against the number of rows that are drawn and tried", value=name)
        return save(drawn, path.with_name(f"{path.name}-search.svg"), said)


def reached(means: np.ndarray, higher: bool) -> pd.DataFrame:
    sign = 1 if higher else -1
    return pd.DataFrame({"best": sign * expected_best(sign * means)[0]}, index=np.arange(1, len(means) + 1))


SPECTRUM = "test.top_singular_share"  # whose `each` is the whole spectrum
UNUSED = 1e-4  # of the largest


def draw_spectra(section: RecordedSection, results: Results, path: Path) -> Figure | None:
    tables = {number: table for number, row in enumerate(section.rows) if len(table := spectra(row, results))}
    if not tables:
        return None
    labels = [row.label for row in section.rows]
    names, others = labels_in_words([labels[number] for number in tables]), renamed(labels, "row")
    said = _(
        "Singular values of the centred, normalised test embeddings, largest first, as shares of their "
        "sum (mean over seeds, band from the lowest to the highest): {names}{others}",
        names=names,
        others=others,
    )
    with style():
        drawn = lines.draw_lines(
            [lines.LinePanel("singular values, as shares of their sum", tables)], labels, "place by size", scale="log"
        )
        return save(drawn, path.with_name(f"{path.name}-spectra.png"), said)


def spectra(row: RecordedRow, results: Results) -> pd.DataFrame:
    """Place × seed, without what centring and rounding leave of directions that nothing uses."""
    by_cell = {cell: each for cell in row.cells if (each := results.each(cell, SPECTRUM)) is not None}
    table = pd.DataFrame({cell: pd.Series(np.asarray(each, float)) for cell, each in by_cell.items()})
    table.index = pd.RangeIndex(1, len(table) + 1)
    return table[(table > UNUSED * table.max()).all(axis=1)]
