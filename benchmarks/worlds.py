"""Worlds whose truth is known: rows of a section at several seeds, and what each row truly is beside the baseline.

Row 0 is the baseline. Made-up scores are in units of what a row varies by from seed to seed; a seed also moves all
rows. Real ones are drawn from the seed bank, whose means over all seeds and texts are the truth.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray
from scipy import stats

from benchmarks import seed_bank
from reports.statistics.decide import Measurements

Drawn = Callable[[np.random.Generator, tuple[int, ...]], ndarray]
MARGIN = 1.5  # standard deviations of a row at one seed
OF_A_SEED = 2.0  # what a seed does to all rows
ALIKE = 0.8  # correlation of the scores of one section, where it has several
COLLAPSES, DEPTH = 0.2, 3.0  # share of trainings that end in a lower mode, and how far below; within a mode .5
MOST_SEEDS = 20
BANK_TEXTS, BANK_SEEDS = 2000, 16  # most of a study that is drawn from the seed bank

# Right or wrong texts, by a probit model: standard deviations beside a text's noise of 1 at each seed.
DIFFICULTY, TEXT_SHARED, TEXT_SEEDS, TEXT_ROWS = 1.5, 0.1, 0.3, 0.7
ACCURACY, MORE_RIGHT, TEXT_MARGIN = 0.85, 0.04, 0.01


def normal(generator: np.random.Generator, shape: tuple[int, ...]) -> ndarray:
    return generator.standard_normal(shape)


def heavy_tails(generator: np.random.Generator, shape: tuple[int, ...]) -> ndarray:
    return generator.standard_t(3, shape) / np.sqrt(3)


def two_modes(generator: np.random.Generator, shape: tuple[int, ...]) -> ndarray:
    drawn = 0.5 * generator.standard_normal(shape) - DEPTH * (generator.random(shape) < COLLAPSES)
    return (drawn + DEPTH * COLLAPSES) / np.sqrt(0.25 + DEPTH**2 * COLLAPSES * (1 - COLLAPSES))


def nothing(rows: int) -> Float[ndarray, " rows-1"]:
    return np.zeros(rows - 1)


def at_the_margin(rows: int) -> Float[ndarray, " rows-1"]:
    return MARGIN * (-1.0) ** np.arange(rows - 1)


def in_one(rows: int) -> Float[ndarray, " rows-1"]:
    return 4.0 * (np.arange(rows - 1) == 0)


def in_half(rows: int) -> Float[ndarray, " rows-1"]:
    return 2.0 * (np.arange(rows - 1) % 2 == 0)


@dataclass(frozen=True)
class MadeUpWorld:
    """Made-up rows. `noisy`: a row that varies three times as much as the others. `steps`: to so many parts of its
    standard deviation a score is rounded (three: 430 texts where it varies by 0.7 points from seed to seed)."""

    differences: Callable[[int], ndarray] = nothing
    noise: Drawn = normal
    noisy: int | None = None
    texts: int | None = None
    scores: int = 1
    steps: int | None = None

    @property
    def margin(self) -> float:
        return MARGIN if self.texts is None else TEXT_MARGIN

    @property
    def plain(self) -> bool:
        """Whether the usual t-tests are right here, so that their number of seeds may be compared."""
        return self.noise is normal and self.noisy is None and {self.texts, self.steps} == {None} and self.scores == 1

    @property
    def slow(self) -> bool:
        """Whether each text is made up, which takes ten times as long."""
        return self.texts is not None

    def truth(self, rows: int) -> Float[ndarray, " rows-1"]:
        return self.differences(rows) if self.texts is None else MORE_RIGHT * (np.arange(rows - 1) == 0)

    def most_seeds(self, rows: int) -> int:
        return MOST_SEEDS

    def study(self, rows: int, seeds: int, generator: np.random.Generator) -> list[Measurements]:
        """Draw one section: each score of its rows at all seeds."""
        if self.texts is not None:
            each = right_or_wrong(self.truth(rows), seeds, self.texts, generator)
            return [Measurements(each.mean(2), each)]
        shape = (self.scores, rows, seeds)
        drawn = self.noise(generator, shape)
        if self.scores > 1:
            drawn = np.sqrt(ALIKE) * self.noise(generator, shape[1:]) + np.sqrt(1 - ALIKE) * drawn
        if self.noisy is not None:
            drawn[:, self.noisy] *= 3
        means = np.concatenate([[0.0], self.truth(rows)])
        values = drawn + means[:, None] + OF_A_SEED * generator.standard_normal((self.scores, 1, seeds))
        if self.steps is not None:
            values = np.round(values * self.steps) / self.steps
        return [Measurements(score, texts=self.steps) for score in values]


@dataclass(frozen=True)
class RealWorld:
    """Trainings of the seed bank: its first recipes at common seeds, or (`alike`) rows of one recipe, each with seeds
    of its own. Made-up worlds say what the other attributes are."""

    alike: bool
    margin, scores, plain, slow = TEXT_MARGIN, 1, False, False

    def truth(self, rows: int) -> Float[ndarray, " rows-1"]:
        accuracy = bank().right[:rows].mean((1, 2))
        return nothing(rows) if self.alike else accuracy[1:] - accuracy[0]

    def most_seeds(self, rows: int) -> int:
        return len(bank().seeds) // rows if self.alike else BANK_SEEDS

    def study(self, rows: int, seeds: int, generator: np.random.Generator) -> list[Measurements]:
        right = bank().right
        texts = np.sort(generator.choice(right.shape[2], BANK_TEXTS, replace=False))
        if self.alike:
            recipe = generator.integers(len(right))
            columns = generator.choice(right.shape[1], rows * seeds, replace=False).reshape(rows, seeds)
            each = right[recipe][columns[:, :, None], texts]
        else:
            columns = generator.choice(right.shape[1], seeds, replace=False)
            each = right[:rows, columns[:, None], texts]
        return [Measurements(each.mean(2), each)]


@cache
def bank() -> seed_bank.Bank:
    return seed_bank.load()


World = MadeUpWorld | RealWorld
WORLDS: dict[str, World] = {
    "nothing differs": MadeUpWorld(),
    "all at ± the margin": MadeUpWorld(at_the_margin),
    "one row is better by 4 sd": MadeUpWorld(in_one),
    "half are better by 2 sd": MadeUpWorld(in_half),
    "one row varies 3 times as much": MadeUpWorld(noisy=1),
    "the baseline varies 3 times as much": MadeUpWorld(noisy=0),
    "tails of t(3)": MadeUpWorld(noise=heavy_tails),
    "one training of five collapses": MadeUpWorld(noise=two_modes),
    "three scores that correlate by .8": MadeUpWorld(scores=3),
    "600 texts, one row 4 points better": MadeUpWorld(texts=600),
    "3 000 texts, one row 4 points better": MadeUpWorld(texts=3000),
    "nothing differs, rounded to 1/3 sd": MadeUpWorld(steps=3),
    "one row is better by 4 sd, rounded to 1/3 sd": MadeUpWorld(in_one, steps=3),
    "one row varies 3 times as much, rounded to 1/3 sd": MadeUpWorld(noisy=1, steps=3),
    "real: recipes of the seed bank": RealWorld(alike=False),
    "real: a recipe against itself": RealWorld(alike=True),
}


def right_or_wrong(
    more_right: Float[ndarray, " rows-1"], seeds: int, texts: int, generator: np.random.Generator
) -> Bool[ndarray, "rows seeds texts"]:
    """A difficulty of each text, what a row makes of it, what a seed does to all rows and to each, and noise."""
    rows = len(more_right) + 1
    whole = np.sqrt(1 + DIFFICULTY**2 + TEXT_SHARED**2 + TEXT_SEEDS**2 + TEXT_ROWS**2)
    latent = generator.standard_normal((rows, seeds, texts), dtype=np.float32)
    latent += DIFFICULTY * generator.standard_normal((1, 1, texts), dtype=np.float32)
    latent += TEXT_ROWS * generator.standard_normal((rows, 1, texts), dtype=np.float32)
    latent += TEXT_SEEDS * generator.standard_normal((rows, seeds, 1), dtype=np.float32)
    latent += TEXT_SHARED * generator.standard_normal((1, seeds, 1), dtype=np.float32)
    accuracy = ACCURACY + np.concatenate([[0.0], more_right])
    return latent > -(stats.norm.ppf(accuracy) * whole).astype(np.float32)[:, None, None]
