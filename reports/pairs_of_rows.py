"""Every pair of a section's rows over the same data, corrected for each other, and the rows tied with the best."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from reports.rows import ShownRow
from reports.seed_values import SeedValues
from reports.statistics import all_pairs, holm, tied


@dataclass(frozen=True)
class RowPairs:
    """Every pair of rows of one value over the same data: differences of the means, p after Holm (nan: no test)."""

    rows: list[int]
    labels: list[str]
    means: Float[np.ndarray, "k k"]
    adjusted: Float[np.ndarray, "k k"]


def every_pair(
    rows: list[ShownRow], values: list[str], seed_values: dict[tuple[int, str], SeedValues]
) -> dict[str, RowPairs]:
    """Of the rows over the same data, all values of the family corrected together."""
    compared, uppers = {}, {}
    for value in values:
        places = [i for i in range(len(rows)) if (i, value) in seed_values]
        if len(places) < 2:
            continue
        group = np.array([rows[i].data for i in places])
        uppers[value] = np.triu(group[:, None] == group[None, :], 1)
        own = [seed_values[i, value] for i in places]
        by_text = (
            all(measured.each is not None for measured in own)
            and len({text for measured in own for text in measured.texts}) == 1
        )
        each = np.stack([measured.each for measured in own]) if by_text else None
        texts = None if by_text else own[0].count
        compared[value] = (places, all_pairs(np.stack([measured.numbers for measured in own]), each, texts))
    if not compared:
        return {}
    adjusted = holm(np.concatenate([pairs.p[uppers[value]] for value, (_, pairs) in compared.items()]))
    parts = np.split(adjusted, np.cumsum([int(upper.sum()) for upper in uppers.values()])[:-1])
    return {
        value: RowPairs(
            places, [rows[i].label for i in places], pairs.mean, symmetric(len(places), uppers[value], part)
        )
        for (value, (places, pairs)), part in zip(compared.items(), parts, strict=True)
    }


def symmetric(size: int, upper: Bool[np.ndarray, "k k"], values: Float[np.ndarray, " m"]) -> Float[np.ndarray, "k k"]:
    whole = np.full((size, size), math.nan)
    whole[upper] = values
    return np.where(np.isnan(whole), whole.T, whole)


def tied_lines(pairs: RowPairs, value: str, rows: list[ShownRow], frame: pd.DataFrame) -> list[tuple[int, str]]:
    """Rows that are tied with the best of those over the same data."""
    lines = frame[frame["value"] == value].set_index("row")
    group = np.array([rows[i].data for i in pairs.rows])
    tied_rows = []
    for data in dict.fromkeys(group):
        here = np.flatnonzero(group == data)
        means = lines.loc[[pairs.rows[position] for position in here], "mean"].to_numpy(float)
        if len(here) > 1:
            best = tied(means, pairs.adjusted[np.ix_(here, here)], bool(lines["higher"].iloc[0]))
            tied_rows += [(pairs.rows[position], value) for position in here[best]]
    return tied_rows
