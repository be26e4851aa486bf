"""Form the groups of comparisons that share one significance level: rows with their baselines, and all pairs of
rows."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from reports.rows import Row, SeedValues, side_by_side, summarise
from reports.statistics.cutoffs import Pair, all_pairs_of
from reports.statistics.decide import (
    Decided,
    Family,
    Measurements,
    compare_samples,
    decide,
    pooled_freedom,
    worth_pairing,
)
from reports.statistics.power import Needed, needed, needed_unpaired
from reports.study import Study

Key = tuple[int, str]  # number of a row, name of a value


@dataclass(frozen=True)
class RowGroup:
    """Rows whose variances are pooled, and the comparisons among them."""

    measured: Measurements
    family: Family  # its pairs are positions in `measured`
    paired: bool = True

    def needed(self, decided: Decided, margin: float | None, more_texts: bool) -> Needed:
        """Return the seeds or texts that would decide a comparison. `more_texts`: whether finished cells could be
        evaluated on more texts."""
        if not self.paired:
            return needed_unpaired(decided, self.family, margin)
        texts = self.measured.per_text.shape[2] if self.measured.per_text is not None and more_texts else 0
        return needed(decided, self.family, margin, texts)


Decisions = dict[Key, tuple[Decided, RowGroup]]  # on rows and their baselines


def decide_family(rows: list[Row], seed_values: dict[Key, SeedValues], study: Study) -> Decisions:
    """Compare complete rows with their baselines, at equal seeds; in a study that adds seeds, at those both rows have.
    Runs of other programs may have any seeds: they are compared by those that both rows have, or by all runs."""
    most_seeds, decisions = study.most_seeds, Decisions()
    values = dict.fromkeys(value for _, value in seed_values)
    groups = [group for value in values for group in groups_of(rows, value, seed_values, study)]
    for value, members, pairs in groups:
        measured, share = [seed_values[i, value] for i in members], 1 / len(groups)
        family = Family(len(members), pairs, share, most_seeds)
        group = RowGroup(side_by_side(measured), family, study.paired)
        by_all = by_all_runs(group, measured) if study.foreign else {}
        rest = [pair for pair in pairs if pair not in by_all]
        by_seed = dict(zip(rest, decide(group.measured, rest, share, most_seeds, pairs), strict=True))
        for pair, decided in (by_all | by_seed).items():
            key = members[pair[0]], value
            decisions[key] = decided, replace(group, paired=pair in by_seed)
    return decisions


def by_all_runs(group: RowGroup, values: list[SeedValues]) -> dict[Pair, Decided]:
    """Compare the pairs of rows that share too few seeds for a paired comparison, or all if nothing is paired."""
    freedom, tests, unpaired = pooled_freedom(group.measured), len(group.family.pairs), dict[Pair, Decided]()
    for pair in group.family.pairs:
        ours, theirs = (values[position] for position in pair)
        shared, counts = len({*ours.seeds} & {*theirs.seeds}), (len(ours.seeds), len(theirs.seeds))
        if not group.paired or not worth_pairing(shared, counts, freedom, tests):
            unpaired[pair] = compare_samples(
                summarise(ours.numbers), summarise(theirs.numbers), tests, group.family.share
            )
    return unpaired


def groups_of(
    rows: list[Row], value: str, seed_values: dict[Key, SeedValues], study: Study
) -> Iterator[tuple[str, list[int], list[Pair]]]:
    """Yield value, rows and pairs: a group per data set for trained vectors, one per configuration for variants."""
    any_seeds = study.foreign is not None or study.stopping is not None
    with_variants = {row.position for row in rows if row.variant}
    by_group: dict[tuple[str, str], list[int]] = {}
    for i, row in enumerate(rows):
        measured = seed_values.get((i, value))
        if measured is None or not measured.seeds or not np.isfinite(measured.numbers).all():
            continue
        if not any_seeds and len(measured.seeds) != len(row.seeds):
            continue
        if not row.variant:
            baseline = row if row.against is None else rows[row.against]
            by_group.setdefault(("data", baseline.data), []).append(i)
        if row.position in with_variants:
            by_group.setdefault(("vectors", str(row.position)), []).append(i)
    for (kind, _), members in by_group.items():
        positions = {number: position for position, number in enumerate(members)}
        pairs = [
            (positions[i], positions[against])
            for i in members
            if (against := rows[i].against) in positions and bool(rows[i].variant) == (kind == "vectors")
            if any_seeds or seed_values[i, value].seeds == seed_values[against, value].seeds
        ]
        if pairs:
            yield value, members, pairs


# decisions on two rows by their numbers: the first minus the second
RowPairs = dict[tuple[int, int], tuple[Decided, RowGroup]]


def every_pair(
    rows: list[Row], values: list[str], seed_values: dict[Key, SeedValues], most_seeds: int | None
) -> dict[str, RowPairs]:
    """Compare rows that are evaluated on the same data; all values and data sets share one significance level."""
    groups = dict[tuple[str, str], list[int]]()
    for i, value in ((i, value) for value in values for i in range(len(rows)) if (i, value) in seed_values):
        evaluated_on = value if value.startswith("transfer.") else rows[i].data
        groups.setdefault((value, evaluated_on), []).append(i)
    groups = {key: members for key, members in groups.items() if len(members) > 1}
    by_value = dict[str, RowPairs]()
    for (value, _data), members in groups.items():
        measured = side_by_side([seed_values[i, value] for i in members])
        pairs, share = all_pairs_of(len(members)), 1 / len(groups)
        group = RowGroup(measured, Family(len(members), pairs, share, most_seeds))
        for (i, j), decided in zip(pairs, decide(measured, pairs, share, most_seeds), strict=True):
            by_value.setdefault(value, {})[members[i], members[j]] = decided, group
    return by_value
