"""The rows of a section's tables, and what each measured: a number at each seed, and what each text adds to it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from contrastive.runs.recorded import RecordedRow, RecordedSection
from reports.load import Results
from reports.statistics import Measurements

ANY = "any of them"  # what a row is called that stands for all configurations


@dataclass(frozen=True)
class Row:
    """A configuration as a table shows it, with the vectors that trained or a variant of them."""

    recorded: RecordedRow
    number: int  # among all that the section shows
    position: int  # of its configuration in the section
    against: int | None  # the number of the row that it is compared with
    variant: str  # what its scores' names begin with; nothing for the vectors that trained
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
        """Whether others are compared with it, and it with none."""
        return self.recorded.baseline and not self.variant


def shown_values(section: RecordedSection, results: Results) -> list[str]:
    """The scores that a section shows: those of its table, and those of transfer data where it asks for them."""
    more = transfer_values(results) if section.show.transfer else []
    return list(dict.fromkeys([*section.show.table.values, *more]))


def family_of(section: RecordedSection, results: Results) -> list[str]:
    """The scores that are tested: those that the table declares, the primary one where it shows it, or all."""
    family = results.grid.experiment.report.family(section.show.table)
    whole = family == list(section.show.table.values)
    return shown_values(section, results) if whole else family


def transfer_values(results: Results) -> list[str]:
    """What each transfer data set is known for, and their mean, as tables of GLUE have it."""
    tasks = results.grid.experiment.evaluation.transfer
    return [task.scores()[0] for task in tasks] + (["transfer.mean"] if len(tasks) > 1 else [])


def variants(values: Sequence[str], results: Results) -> list[str]:
    """What is put before these scores: nothing, and the further vectors and post-processing of which they are known."""
    evaluation = results.grid.experiment.evaluation
    prefixes = [
        "".join(f"{part}/" for part in (other, how) if part)
        for other in ("", *evaluation.vectors)
        for how in ("", *evaluation.post)
    ]
    return [p for p in prefixes if not p or any(f"{p}{value}" in results.scores.columns for value in values)]


def rows_of(section: RecordedSection, values: Sequence[str], results: Results) -> list[Row]:
    """Where vectors of several kinds are measured, which kind is one more axis. The vectors that trained are compared
    with those of the baseline, and others with those that trained the same cells. Vectors that are the same whatever
    trained are one row."""
    kinds = variants(values, results)
    alike = {kind for kind in kinds if never_differ(kind, section, values, results)}
    places = [(p, v) for p in range(len(section.rows)) for v in kinds if p == 0 or v not in alike]
    numbers = {key: number for number, key in enumerate(places)}
    rows = []
    for (position, variant), number in numbers.items():
        row = section.rows[position]
        beside = None if variant in alike else position if variant else row.against
        against = None if beside is None else numbers[beside, ""]
        shown = shown_row(row, number, position, against, variant, kinds != [""])
        rows.append(one_for_all(shown) if variant in alike else shown)
    return rows


def never_differ(kind: str, section: RecordedSection, values: Sequence[str], results: Results) -> bool:
    """Whether further vectors have the very same scores in every row, seed by seed: nothing trained reaches them."""
    rows = section.rows
    if not kind or len(rows) < 2 or len({(row.data, tuple(row.seeds)) for row in rows}) > 1:
        return False
    scores = [results.by_score[f"{kind}{value}"] for value in values if f"{kind}{value}" in results.by_score]
    held = [[[score.get(cell, math.nan) for score in scores] for cell in row.cells] for row in rows]
    return bool(scores) and all(own == held[0] for own in held)


def one_for_all(row: Row) -> Row:
    kind = row.variant.rstrip("/")
    return replace(row, label=f"{ANY} · {kind}", axes={"embedding": kind})


def shown_row(row: RecordedRow, number: int, position: int, against: int | None, variant: str, several: bool) -> Row:
    kind = variant.rstrip("/")
    axes = row.axes | {"embedding": kind or "as trained"} if several else row.axes
    label = f"{row.label} · {kind}" if variant else row.label
    return Row(row, number, position, against, variant, label, axes)


def references_of(section: RecordedSection, results: Results) -> dict[str, dict[str, float]]:
    """What the section's data is measured against, named with its data where there are several: name → scores."""
    here = {row.data for row in section.rows}
    return {
        f"{reference.name}, {reference.data}" if reference.data else reference.name: reference.scores
        for reference in results.grid.references
        if reference.data in here
    }


COUNTING = ("macro_f1", "accuracy", "ari", "nmi")  # what is made of counts of texts


def seed_scores(row: Row, value: str, results: Results) -> Float[np.ndarray, " s"]:
    """Of each seed; nan where there is none."""
    scores = results.by_score.get(f"{row.variant}{value}", {})
    return np.array([scores.get(cell, math.nan) for cell in row.cells], dtype=float)


def applies(row: Row, value: str, results: Results) -> bool:
    """Whether further vectors of a cell have this score at all: what its head says is known of none of them."""
    return not row.variant or f"{row.variant}{value}" in results.scores.columns


def direction(value: str, results: Results) -> bool | None:
    """Whether more is better; None of what describes."""
    return results.kinds[value].higher_is_better if value in results.kinds else True


@dataclass(frozen=True)
class SeedValues:
    """One value of one row: of each seed, and what each text adds at each seed where the value is the mean of that."""

    seeds: list[int]
    numbers: Float[np.ndarray, " s"]
    each: Any = None  # seed × text
    texts: tuple[int, ...] = ()  # which they are, seed by seed
    higher: bool | None = True
    count: int | None = None  # texts of a value that counts them, where each is not known

    def at(self, positions: list[int]) -> "SeedValues":
        """At some of its seeds."""
        each = None if self.each is None else self.each[positions]
        seeds, texts = (
            [self.seeds[position] for position in positions],
            tuple(self.texts[position] for position in positions if self.texts),
        )
        return SeedValues(seeds, self.numbers[positions], each, texts, self.higher, self.count)

    def beside(self, other: "SeedValues") -> tuple["SeedValues", "SeedValues"]:
        """Both at the seeds that both have."""
        positions = {seed: position for position, seed in enumerate(other.seeds)}
        both = [
            (mine, positions[seed])
            for mine, seed in enumerate(self.seeds)
            if seed in positions
            if math.isfinite(self.numbers[mine]) and math.isfinite(other.numbers[positions[seed]])
        ]
        return self.at([mine for mine, _ in both]), other.at([theirs for _, theirs in both])

    def same_texts(self, other: "SeedValues") -> bool:
        """Whether both were measured on the same texts, and each of them is known."""
        return self.each is not None and other.each is not None and len({*self.texts, *other.texts}) == 1


def side_by_side(measured: list[SeedValues]) -> Measurements:
    """Rows × all their seeds; by text where all were measured on the same ones."""
    seeds = list(dict.fromkeys(seed for row in measured for seed in row.seeds))
    positions_of = {seed: position for position, seed in enumerate(seeds)}
    by_text = all(row.each is not None for row in measured) and len({t for row in measured for t in row.texts}) == 1
    values = np.full((len(measured), len(seeds)), math.nan)
    each = np.zeros((len(measured), len(seeds), measured[0].each.shape[1]), measured[0].each.dtype) if by_text else None
    for number, row in enumerate(measured):
        positions = [positions_of[seed] for seed in row.seeds]
        values[number, positions] = row.numbers
        if each is not None:
            each[number, positions] = row.each
    return Measurements(values, each, None if by_text else measured[0].count)


def seed_values_of_row(row: Row, values: list[str], results: Results) -> dict[str, SeedValues]:
    """Each value of a row, with what each text adds where the value is the mean of that. Of a study that stops by
    itself, at the seeds that have results."""
    names = [f"{row.variant}{value}" for value in values]
    every = [results.examples(cell, names) for cell in row.cells]
    by_value = {}
    for value, name in zip(values, names, strict=True):
        numbers, higher = seed_scores(row, value, results), direction(value, results)
        finite = np.isfinite(numbers)
        kept = finite if results.grid.stopping is not None and finite.any() else np.ones(len(numbers), bool)
        numbers, seeds = numbers[kept], [seed for seed, keep in zip(row.seeds, kept, strict=True) if keep]
        stored = [held for held, keep in zip(every, kept, strict=True) if keep]
        each = [arrays.get(name) for arrays, _ in stored]
        texts = [marks.get(f"{value.partition('.')[0]}.ids") for _, marks in stored]
        held = [array for array in each if array is not None]
        whole = 0 < len(held) == len(stored) and None not in texts and len({len(array) for array in held}) == 1
        stacked = np.stack(held) if whole else None
        if stacked is not None and np.allclose(stacked.mean(1, dtype=np.float64), numbers, atol=1e-6, rtol=0):
            by_value[value] = SeedValues(seeds, numbers, stacked, tuple(mark or 0 for mark in texts), higher)
        else:
            by_value[value] = SeedValues(seeds, numbers, higher=higher, count=text_count(value, results))
    return by_value


def text_count(value: str, results: Results) -> int | None:
    """On how many texts a score rests that counts texts: two seeds may then agree by luck."""
    count = results.kinds[value].count if value in results.kinds else None
    return count if count and value.endswith(COUNTING) else None
