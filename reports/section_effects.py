"""What each axis of a section explains of its scores, and each two of them together."""

from dataclasses import replace

import numpy as np
import pandas as pd

from contrastive.runs.recorded import RecordedSection
from reports.compare import Comparisons
from reports.load import Results
from reports.markdown import symbol
from reports.rows import ShownRow, rows_of, shown_values
from reports.seed_values import seed_scores
from reports.statistics import effects, interaction_of_texts, levels


def explained(section: RecordedSection, compared: Comparisons, results: Results) -> dict[str, pd.DataFrame]:
    """Of each tested value; nothing where the section is no grid of two axes or more, is not ranked, or has rows of
    unequal seeds.

    Only of the vectors that trained: further ones, and what is made of them, are the same cells measured again.
    """
    rows = grid_rows(section, results)
    shared = [name for name in (rows[0].axes if rows else {}) if all(name in row.axes for row in rows)]
    factors = [name for name in shared if len({str(row.axes[name]) for row in rows}) > 1]
    values = dict.fromkeys(compared.frame.loc[compared.frame["tested"], "value"])
    if not compared.ranked or len(factors) < 2 or len({row.data for row in rows}) > 1:
        return {}
    if len({tuple(row.seeds) for row in rows}) > 1:
        return {}
    frames = {}
    for value in values:
        noise = noise_of_texts(rows, value, compared)
        frame = effects(tidy_values(rows, factors, value, results), factors, value, from_texts=noise)
        if len(frame):
            frames[value] = frame.assign(
                p=np.minimum(1.0, frame["p"] * len(values)),  # the values share one level
                shown=[" × ".join(map(symbol, str(effect).split(" × "))) for effect in frame["effect"]],
            )
    return frames


def noise_of_texts(rows: list[ShownRow], value: str, compared: Comparisons) -> float:
    by_text = [compared.measured[row.number, value].each for row in rows if (row.number, value) in compared.measured]
    whole = len(by_text) == len(rows) and all(numbers is not None for numbers in by_text)
    return interaction_of_texts(np.stack(by_text)) if whole else 0.0


def grid_rows(section: RecordedSection, results: Results) -> list[ShownRow]:
    """The rows of a section that lie in its grid."""
    rows = rows_of(section, shown_values(section, results), results)
    return [replace(row, axes=row.recorded.axes) for row in rows if not row.variant and row.recorded.axes]


def level_means(
    section: RecordedSection, frames: dict[str, pd.DataFrame], compared: Comparisons, results: Results
) -> dict[str, pd.DataFrame]:
    """Of each explained value, the mean of every level of an axis over the others, with the interval of its distance
    from the mean of the levels."""
    rows = grid_rows(section, results)
    means = {}
    for value, frame in frames.items():
        factors = [effect for effect in frame["effect"] if " × " not in effect]
        table = tidy_values(rows, factors, value, results)
        noise = noise_of_texts(rows, value, compared)
        parts = [
            levels(table, factors, factor, value, from_texts=noise).assign(axis=symbol(factor)) for factor in factors
        ]
        means[value] = pd.concat(parts, ignore_index=True)
    return means


def tidy_values(rows: list[ShownRow], factors: list[str], value: str, results: Results) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {name: str(row.axes[name]) for name in factors} | {"seed": seed, value: score}
            for row in rows
            for seed, score in zip(row.seeds, seed_scores(row, value, results), strict=True)
        ]
    )
