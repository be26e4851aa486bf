"""Compare each row with its baseline, and every pair of rows on the same data; all scores and groups of a section share
one significance level."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from reports.rows import Row, SeedValues, side_by_side
from reports.statistics import Decided, Measurements, Needed, decide, detectable, needed
from reports.statistics.cutoffs import Pair, all_pairs_of

Key = tuple[int, str]  # number of a row, and value
MOST_ROWS, BEST = 40, 10  # of more rows, only these best ones are compared with all others


@dataclass(frozen=True)
class RowGroup:
    """Rows whose variances are pooled, the comparisons among them, and their share of the significance level."""

    value: str
    rows: list[int]
    pairs: list[Pair]  # of positions in `rows`
    measured: Measurements
    share: float
    most_seeds: int | None  # of a study that stops by itself


@dataclass(frozen=True)
class Judged:
    """What was decided of each row that has a baseline; per value the smallest difference that is found so often."""

    decided: dict[Key, Decided] = field(default_factory=dict)
    detectable: dict[str, float | None] = field(default_factory=dict)
    groups: dict[Key, RowGroup] = field(default_factory=dict)

    def needed(self, row: int, value: str, margin: float | None, more_texts: bool = True) -> Needed:
        """What would decide a comparison; `more_texts`: whether finished cells could be measured on more of them."""
        group = self.groups[row, value]
        texts = group.measured.each.shape[2] if group.measured.each is not None and more_texts else 0
        return needed(
            self.decided[row, value], group.pairs, len(group.rows), margin, texts, group.share, group.most_seeds
        )


def judge_family(rows: list[Row], seed_values: dict[Key, SeedValues], most_seeds: int | None) -> Judged:
    """Only whole rows, at the seeds of their baseline: of a study that stops by itself, at those that both have. There
    a row that fails is judged no more, but what it gave before stays in the pool: the verdicts of the others stand."""
    values = list(dict.fromkeys(value for _, value in seed_values))
    judged = Judged()
    parts = [part for value in values for part in groups_of(rows, value, seed_values, most_seeds)]
    for value, members, pairs in parts:
        group = RowGroup(
            value, members, pairs, side_by_side([seed_values[i, value] for i in members]), 1 / len(parts), most_seeds
        )
        decided = decide(group.measured, pairs, group.share, most_seeds)
        for (ours, theirs), comparison in zip(pairs, decided, strict=True):
            if comparison.seeds == len({*rows[members[ours]].seeds} & {*rows[members[theirs]].seeds}):
                judged.decided[members[ours], value] = comparison
                judged.groups[members[ours], value] = group
        limits = [judged.detectable.get(value), detectable(decided, pairs, len(members), group.share, most_seeds)]
        judged.detectable[value] = max((limit for limit in limits if limit is not None), default=None)
    return judged


def groups_of(
    rows: list[Row], value: str, seed_values: dict[Key, SeedValues], most_seeds: int | None
) -> Iterator[tuple[str, list[int], list[Pair]]]:
    """The vectors that trained, with their baseline, a group for each data set; and those of each configuration."""
    by_group: dict[tuple[str, str], list[int]] = {}
    for i, row in enumerate(rows):
        if (i, value) in seed_values and takes_part(seed_values[i, value], row, most_seeds is not None):
            beside = row if row.against is None else rows[row.against]
            names = [("vectors", str(row.position))] if row.variant else [("data", beside.data)]
            names += [("vectors", str(row.position))] if not row.variant and has_variants(row, rows) else []
            for name in names:
                by_group.setdefault(name, []).append(i)
    for (kind, _), members in by_group.items():
        positions = {number: position for position, number in enumerate(members)}
        pairs = [
            (positions[i], positions[other])
            for i in members
            if (other := rows[i].against) in positions and bool(rows[i].variant) == (kind == "vectors")
            if most_seeds is not None or seed_values[i, value].seeds == seed_values[other, value].seeds
        ]
        if pairs:
            yield value, members, pairs


def takes_part(measured: SeedValues, row: Row, study: bool) -> bool:
    return bool(np.isfinite(measured.numbers).all()) and (len(measured.seeds) == len(row.seeds) or study)


def has_variants(row: Row, rows: list[Row]) -> bool:
    return any(other.variant for other in rows if other.position == row.position)


@dataclass(frozen=True)
class RowPairs:
    """Every pair of rows of a value: differences of the means, i − j, and p for all of them together (nan: no test, or
    other data)."""

    rows: list[int]
    labels: list[str]
    means: Float[np.ndarray, "k k"]
    p: Float[np.ndarray, "k k"]


def every_pair(
    rows: list[Row], values: list[str], seed_values: dict[tuple[int, str], SeedValues], most_seeds: int | None
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
        measured = side_by_side([seed_values[i, value] for i in members])
        family = all_pairs_of(len(members))
        pairs = with_the_best(family, measured.values, bool(seed_values[members[0], value].higher))
        for (i, j), decided in zip(pairs, decide(measured, pairs, 1 / len(groups), most_seeds, family), strict=True):
            here, there = positions[members[i]], positions[members[j]]
            own.means[here, there], own.means[there, here] = decided.difference, -decided.difference
            own.p[here, there] = own.p[there, here] = decided.p
    return compared


def with_the_best(pairs: Sequence[Pair], values: Float[np.ndarray, "k s"], higher: bool) -> Sequence[Pair]:
    """Of many rows the pairs with one of the best, which is enough to see what is worse than some other row."""
    if len(values) <= MOST_ROWS:
        return pairs
    means = np.nanmean(values, axis=1) * (1 if higher else -1)
    best = {*np.argsort(-means, kind="stable")[:BEST].tolist()}
    return [pair for pair in pairs if best & {*pair}]


def without_pairs(numbers: list[int], rows: list[Row]) -> RowPairs:
    nothing = np.full((len(numbers), len(numbers)), math.nan)
    return RowPairs(numbers, [rows[i].label for i in numbers], nothing, nothing.copy())
