"""Rows of a section's tables, and their values: a number for each seed and, if stored, one for each text."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from contrastive.config.scores import score_facts
from contrastive.runs.recorded import Provenance, RecordedRow, RecordedSection
from reports.messages import N_
from reports.statistics.cutoffs import looks_up_to
from reports.statistics.decide import Measurements
from reports.study import Results, Study

ANY = "any of them"  # label of a row that represents all configurations


@dataclass(frozen=True)
class Row:
    """A line of a table: a configuration, measured with the vectors that were trained or a variant of them."""

    recorded: RecordedRow
    number: int  # among all rows that the section shows
    position: int  # of its configuration in the section
    against: int | None  # number of the row that it is compared with
    variant: str  # prefix of its scores' names; empty for the trained vectors
    label: str
    axes: dict[str, Any]

    @property
    def cells(self) -> list[str]:
        return self.recorded.cells

    @property
    def seeds(self) -> list[int]:
        return self.recorded.seeds

    @property
    def data(self) -> str:
        return self.recorded.data

    @property
    def baseline(self) -> bool:
        """True if other rows are compared with it, and it with none."""
        return self.recorded.baseline and not self.variant


def shown_values(section: RecordedSection, results: Results) -> list[str]:
    """Return the scores that a section shows: those of its table and, if `show.transfer` is set, of transfer data."""
    more = results.study.transfer if section.show.transfer else ()
    return list(dict.fromkeys([*section.show.table.values, *more]))


def variants(values: Sequence[str], results: Results) -> list[str]:
    """Return the prefixes with which these scores were measured: none, further vectors, post-processing, or both."""
    prefixes = results.study.variants
    return [p for p in prefixes if not p or any(f"{p}{value}" in results.scores.columns for value in values)]


def rows_of(section: RecordedSection, values: Sequence[str], results: Results) -> list[Row]:
    """Return the rows of a section; the kind of vectors is a further axis if several were measured. Trained vectors are
    compared with those of the baseline, other kinds with the trained vectors of the same cells. Vectors that training
    never changes share one row."""
    kinds = variants(values, results)
    alike = {kind for kind in kinds if never_differ(kind, section, values, results)}
    keys = [(p, v) for p in range(len(section.rows)) for v in kinds if p == 0 or v not in alike]
    numbers = {key: number for number, key in enumerate(keys)}
    rows = []
    for (position, variant), number in numbers.items():
        recorded, kind = section.rows[position], variant.rstrip("/")
        compared_with = position if variant else recorded.against
        label = f"{recorded.label} · {kind}" if variant else recorded.label
        axes = recorded.axes if kinds == [""] else recorded.axes | {"embedding": kind or "as trained"}
        if variant in alike:  # one row for all configurations
            compared_with, label, axes = None, f"{ANY} · {kind}", {"embedding": kind}
        against = None if compared_with is None else numbers[compared_with, ""]
        rows.append(Row(recorded, number, position, against, variant, label, axes))
    return rows


def never_differ(kind: str, section: RecordedSection, values: Sequence[str], results: Results) -> bool:
    """Return whether further vectors score the same in every row, seed by seed: training does not change them."""
    rows = section.rows
    if not kind or len(rows) < 2 or len({(row.data, tuple(row.seeds)) for row in rows}) > 1:
        return False
    scores = [results.by_score[f"{kind}{value}"] for value in values if f"{kind}{value}" in results.by_score]
    by_row = [[[score.get(cell, math.nan) for score in scores] for cell in row.cells] for row in rows]
    return bool(scores) and all(values == by_row[0] for values in by_row)


def references_of(section: RecordedSection, results: Results) -> dict[str, dict[str, float]]:
    """Return the references for a section's data, such as TF-IDF, as name → scores. A name tells the data set if the
    section has several."""
    used = {row.data for row in section.rows}
    return {
        f"{reference.name}, {reference.data}" if len(used) > 1 and reference.data else reference.name: reference.scores
        for reference in results.study.references
        if reference.data in used
    }


def seed_scores(row: Row, value: str, results: Results) -> Float[np.ndarray, " s"]:
    """Return a row's score for each seed, nan where it is missing."""
    scores = results.by_score.get(f"{row.variant}{value}", {})
    return np.array([scores.get(cell, math.nan) for cell in row.cells], dtype=float)


def summarise(values: Float[np.ndarray, " s"]) -> tuple[int, float, float]:
    """Return number, mean and sample standard deviation of the finite values; the deviation of one value is nan."""
    finite = values[np.isfinite(values)]
    count = len(finite)
    if count < 2:
        return count, float(finite[0]) if count else math.nan, math.nan
    deviation = float(finite.std(ddof=1)) if np.ptp(finite) else 0.0  # the mean of equal values may be rounded
    return count, float(finite.mean()), deviation


def applies(row: Row, value: str, results: Results) -> bool:
    """Return whether a row can have this score: those of the classification head exist for trained vectors only."""
    return not row.variant or f"{row.variant}{value}" in results.scores.columns


def direction(value: str, results: Results) -> bool | None:
    """Return whether higher is better; None for a descriptive score."""
    return results.kinds[value].higher_is_better if value in results.kinds else True


@dataclass(frozen=True)
class SeedValues:
    """One value of one row for each seed, and for each text if the value is a mean over texts."""

    seeds: list[int]
    numbers: Float[np.ndarray, " s"]
    per_text: Any = None  # seed × text
    texts: tuple[int, ...] = ()  # checksum of the texts' ids, for each seed
    count: int | None = None  # number of texts of a score made of counts, if `per_text` is None

    def at(self, positions: list[int]) -> "SeedValues":
        """Restrict to some positions of `seeds`."""
        seeds = [self.seeds[position] for position in positions]
        per_text = None if self.per_text is None else self.per_text[positions]
        texts = tuple(self.texts[position] for position in positions if self.texts)
        return SeedValues(seeds, self.numbers[positions], per_text, texts, self.count)

    def beside(self, other: "SeedValues") -> tuple["SeedValues", "SeedValues"]:
        """Restrict both to the seeds for which both have a value."""
        theirs = {seed: i for i, seed in enumerate(other.seeds) if math.isfinite(other.numbers[i])}
        common = [i for i, seed in enumerate(self.seeds) if seed in theirs and math.isfinite(self.numbers[i])]
        return self.at(common), other.at([theirs[self.seeds[i]] for i in common])

    def same_texts(self, other: "SeedValues") -> bool:
        """Return whether both have a value for each text, on the same texts."""
        return self.per_text is not None and other.per_text is not None and len({*self.texts, *other.texts}) == 1


def side_by_side(measured: list[SeedValues]) -> Measurements:
    """Stack rows into an array rows × seeds, with values for each text if all were measured on the same texts."""
    positions_of = {seed: i for i, seed in enumerate(dict.fromkeys(seed for row in measured for seed in row.seeds))}
    shape = len(measured), len(positions_of)
    values, per_text = np.full(shape, math.nan), None
    if all(row.same_texts(measured[0]) for row in measured):
        per_text = np.zeros((*shape, measured[0].per_text.shape[1]), measured[0].per_text.dtype)
    for number, row in enumerate(measured):
        positions = [positions_of[seed] for seed in row.seeds]
        values[number, positions] = row.numbers
        if per_text is not None:
            per_text[number, positions] = row.per_text
    return Measurements(values, per_text, measured[0].count if per_text is None else None)


def seed_values_of_row(row: Row, values: list[str], results: Results) -> dict[str, SeedValues]:
    """Return each value of a row, with its values for each text if it is a mean over texts, at the seeds that count."""
    names = [f"{row.variant}{value}" for value in values]
    examples = [results.examples(cell, names) for cell in row.cells]
    by_value = {}
    for value, name in zip(values, names, strict=True):
        numbers = seed_scores(row, value, results)
        kept = np.flatnonzero(seeds_that_count(np.isfinite(numbers), results.study)).tolist()
        numbers, seeds = numbers[kept], [row.seeds[position] for position in kept]
        arrays = [examples[position][0].get(name) for position in kept]
        texts = [examples[position][1].get(f"{value.partition('.')[0]}.ids") for position in kept]
        present = [array for array in arrays if array is not None]
        complete = 0 < len(present) == len(kept) and None not in texts and len({*map(len, present)}) == 1
        stacked = np.stack(present) if complete else None
        if stacked is not None and np.allclose(stacked.mean(1, dtype=np.float64), numbers, atol=1e-6, rtol=0):
            by_value[value] = SeedValues(seeds, numbers, stacked, tuple(mark or 0 for mark in texts))
        else:
            by_value[value] = SeedValues(seeds, numbers, count=text_count(value, results))
    return by_value


def seeds_that_count(measured: Bool[np.ndarray, " s"], study: Study) -> Bool[np.ndarray, " s"]:
    """Return which seeds count, by whether each has a result: all, in a table of another program those with results,
    and in a study that adds seeds the first ones, up to the last look of which none is missing."""
    if study.stopping is not None:
        complete = int(np.logical_and.accumulate(measured).sum())
        looks = [look for look in looks_up_to(study.stopping.most_seeds) if look <= complete]
        return np.arange(len(measured)) < max(looks, default=0)
    return measured if study.foreign is not None and measured.any() else np.ones(len(measured), bool)


def text_count(value: str, results: Results) -> int | None:
    """Return the number of texts of a score made of counts, whose seeds may agree by chance; None for other scores."""
    count = results.kinds[value].count if value in results.kinds else None
    return count if count and score_facts(value).counted else None


def seconds_of_cell(cells: Sequence[str], results: Results) -> float:
    """Return the mean seconds of the finished cells of a row; nan if no time is known."""
    seconds = [known.wall_seconds for cell in cells if (known := results.provenance(cell))]
    return float(np.mean(seconds)) if seconds else math.nan


class Cost(NamedTuple):
    """Mean cost of training a cell of a row, and the conditions that it depends on."""

    device: str  # what it counts: GPU-seconds or CPU-seconds, in English
    seconds: float
    conditions: frozenset[Hashable]  # of the cells: machine, threads, processes, day, store of frozen blocks


def row_cost(cells: Sequence[str], results: Results) -> Cost | None:
    """Return a row's measured cost; None if it is unknown for a cell, or the cells ran on several kinds of devices."""
    costs = [cell_cost(known) for cell in cells if (known := results.provenance(cell)) is not None]
    measured = [cost for cost in costs if cost is not None]
    if not measured or len(measured) < len(cells) or len({cost.device for cost in measured}) > 1:
        return None
    conditions = frozenset[Hashable]().union(*(cost.conditions for cost in measured))
    return Cost(measured[0].device, float(np.mean([cost.seconds for cost in measured])), conditions)


def cell_cost(known: Provenance) -> Cost | None:
    """Return the CPU-seconds of training, on a GPU the seconds for which it held one; None if nothing measured them."""
    device, seconds = N_("CPU-seconds of training"), known.training_cpu_seconds
    if known.gpu_seconds > 0:
        device, seconds = N_("GPU-seconds of training"), known.training_gpu_seconds
    if seconds is None:
        return None
    store = (known.speed or {}).get("reuse")
    conditions = (known.hardware, known.threads, known.processes, known.finished, store)
    return Cost(device, seconds, frozenset([conditions]))
