"""Compare every pair of a section's rows on the same data, and find the rows that some other row beats."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float

from reports.rows import ShownRow
from reports.seed_values import SeedValues, side_by_side
from reports.statistics import ALPHA, decide
from reports.statistics.cutoffs import all_pairs_of


@dataclass(frozen=True)
class RowPairs:
    """Every pair of rows of a value: differences of the means, i − j, and p for all of them together (nan: no test, or
    other data)."""

    rows: list[int]
    labels: list[str]
    means: Float[np.ndarray, "k k"]
    p: Float[np.ndarray, "k k"]


def every_pair(
    rows: list[ShownRow], values: list[str], seed_values: dict[tuple[int, str], SeedValues], most_seeds: int | None
) -> dict[str, RowPairs]:
    """Compare rows on the same data; all values and data sets share one significance level."""
    groups = {
        (value, data): [i for i, row in enumerate(rows) if row.data == data and (i, value) in seed_values]
        for value in values
        for data in dict.fromkeys(row.data for row in rows)
    }
    groups = {key: members for key, members in groups.items() if len(members) > 1}
    compared: dict[str, RowPairs] = {}
    for (value, _), members in groups.items():
        if value not in compared:
            compared[value] = without_pairs([i for i in range(len(rows)) if (i, value) in seed_values], rows)
        own = compared[value]
        positions = {number: position for position, number in enumerate(own.rows)}
        pairs = all_pairs_of(len(members))
        measured = side_by_side([seed_values[i, value] for i in members])
        for (i, j), decided in zip(pairs, decide(measured, pairs, 1 / len(groups), most_seeds), strict=True):
            here, there = positions[members[i]], positions[members[j]]
            own.means[here, there], own.means[there, here] = decided.difference, -decided.difference
            own.p[here, there] = own.p[there, here] = decided.p
    return compared


def without_pairs(numbers: list[int], rows: list[ShownRow]) -> RowPairs:
    nothing = np.full((len(numbers), len(numbers)), math.nan)
    return RowPairs(numbers, [rows[i].label for i in numbers], nothing, nothing.copy())


def beaten_rows(pairs: RowPairs, frame: pd.DataFrame) -> list[int]:
    """Rows that some other row significantly beats, and rows that could be compared with no other."""
    lines = frame[frame["row"].isin(pairs.rows)].set_index("row")
    higher = bool(lines["higher"].iloc[0])
    worse = (pairs.means < 0 if higher else pairs.means > 0) & (pairs.p <= ALPHA)
    return [
        row for position, row in enumerate(pairs.rows) if worse[position].any() or np.isnan(pairs.means[position]).all()
    ]
