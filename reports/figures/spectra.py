"""Singular spectra: how the embeddings of each configuration fill the directions that they have."""

from pathlib import Path

import numpy as np
import pandas as pd

from contrastive.runs.recorded import RecordedRow, RecordedSection
from reports.figures import lines
from reports.figures.canvas import Figure, labels_in_words, renamed, save, style
from reports.load import Results
from reports.messages import _

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
