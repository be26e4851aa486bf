"""What a row measured: a number at each seed, and what each text adds to it where that is known."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from reports.load import Results
from reports.rows import Row
from reports.statistics import Measurements

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
