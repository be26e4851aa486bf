"""Simultaneous cut-offs for many comparisons and for repeated looks as seeds are added (max-t, by simulation).

The statistic of a pair is |difference| / √(variance / seeds), where the variance of the pair is the largest of three
estimates: the pooled one of all rows; the pair's own; and three times the residual variance of either of its two rows,
so that a noisy row is not treated as having the pooled variance (`floored`). Under equal variances the distribution
depends only on the rows, the pairs and the seeds. A study with several looks spends its level in proportion to the
seeds so far (Lan and DeMets, 1983). All looks use the same texts, so for the texts' part a look uses the level spent so
far; with the full level at every look, 6.5 of 100 studies whose variance is half from texts erred.
The same design always gets the same cut-offs, since the generator has a fixed seed.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy import special

from reports.statistics.kept import kept

Pair = tuple[int, int]

LOOKS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20)  # numbers of seeds at which a study that adds seeds is tested
DRAWS, ADVICE_DRAWS, FEWEST_DRAWS = 100_000, 20_000, 4_000  # most for a test, most to advise seeds, fewest
NUMBERS = 300  # random numbers per draw for which a design gets all its draws; a larger design gets fewer
OWN = 3.0  # the variance of a pair is at least this many times the residual variance of either row
ENOUGH = 60  # draws needed beyond a cut-off; rarer levels are extrapolated by Student's tail
LEVELS = 10.0 ** -np.arange(0, 10.01, 0.125)  # levels for which cut-offs are tabulated


@dataclass(frozen=True)
class Design:
    """The rows in the pool, the pairs of rows that are compared, and the number of seeds at each look."""

    rows: int
    pairs: tuple[Pair, ...]
    looks: tuple[int, ...]  # a single look if the number of seeds was fixed beforehand
    draws: int = DRAWS  # most draws

    def freedom(self, look: int = -1) -> int:
        """Return the degrees of freedom of the pooled variance."""
        return (self.rows - 1) * (self.looks[look] - 1)


@dataclass(frozen=True)
class Cutoffs:
    """Cut-offs of one look of a design for each level in LEVELS, with the level spent up to and at this look."""

    seeds: Float[ndarray, " levels"]
    texts: Float[ndarray, " levels"]  # cut-offs with a known variance, since there are many texts
    freedom: int  # of the pooled variance
    pairs: int
    spent: float  # share of the level that this look may spend

    def at_freedom(self, freedom: float) -> Float[ndarray, " levels"]:
        """Return the seeds' cut-offs, widened for a pool with fewer degrees of freedom (rows with fewer seeds)."""
        if freedom >= self.freedom:
            return self.seeds
        tails = np.minimum(LEVELS * self.spent / self.pairs, 0.5) / 2  # capped: the quantile at level 1 would be 0
        return self.seeds * np.maximum(1.0, student(tails, freedom) / student(tails, self.freedom))

    def alone(self, freedom: float) -> Float[ndarray, " levels"]:
        """Return cut-offs for a pair tested by its own variance: Student's t at Bonferroni's share of the level."""
        return student(LEVELS * self.spent / 2 / self.pairs, freedom)


def student(tail: ndarray, freedom: float) -> ndarray:
    """Return the quantile of Student's t with probability `tail` above it."""
    return -special.stdtrit(freedom, np.maximum(tail, 1e-300))


def all_pairs_of(rows: int) -> tuple[Pair, ...]:
    """Return every pair of rows once, as positions."""
    return tuple((i, j) for i in range(rows) for j in range(i))


def looks_up_to(seeds: int) -> tuple[int, ...]:
    """Return the looks of a study of at most `seeds` seeds: the usual ones below that number, then the number."""
    return (*(look for look in LOOKS if look < seeds), seeds)


@lru_cache(maxsize=128)
def cutoffs(design: Design) -> tuple[Cutoffs, ...]:
    """Return the cut-offs of each look."""
    spent = np.diff([0.0, *design.looks]) / design.looks[-1]
    table = kept(lambda: tabulated(design, spent), design).reshape(len(spent), -1)
    return tuple(
        Cutoffs(monotone(row), monotone(by_text), design.freedom(number), len(design.pairs), float(share))
        for number, (row, by_text, share) in enumerate(zip(*np.split(table, 2, axis=1), spent, strict=True))
    )


def tabulated(design: Design, spent: Float[ndarray, " looks"]) -> Float[ndarray, "looks numbers"]:
    """Return cut-offs for the seeds and for the texts at each level."""
    largest, texts = simulate_studies(design)
    largest, texts = largest[np.argsort(largest[:, 0])].T.copy(), np.sort(texts)  # sorted for speed alone
    seeds = np.stack([bounds_of_looks(largest, level, spent, design) for level in LEVELS], 1)
    normal = np.array([[quantile_of(texts, level * share, None) for level in LEVELS] for share in np.cumsum(spent)])
    return np.hstack([seeds, normal])


def monotone(values: Float[ndarray, " levels"]) -> Float[ndarray, " levels"]:
    """Make cut-offs grow as the level falls; the cut-off at level 1 is 0."""
    values[0] = 0.0
    return np.maximum.accumulate(values)


def bounds_of_looks(
    largest: Float[ndarray, "looks n"], level: float, spent: Float[ndarray, " looks"], design: Design
) -> Float[ndarray, " looks"]:
    """Return the cut-off of each look, among the draws that crossed no cut-off at an earlier look."""
    count, bounds = largest.shape[1], np.empty(len(spent))
    alive = np.arange(count)
    for number, share in enumerate(spent):
        values = largest[number].take(alive)
        remaining = level * share * count / max(1, len(values))  # the level among the draws still alive
        bounds[number] = quantile_of(values, remaining, design.freedom(number)) if len(values) else np.inf
        if number + 1 < len(spent):
            alive = alive[values <= bounds[number]]
    return bounds


def quantile_of(values: Float[ndarray, " n"], level: float, freedom: int | None) -> float:
    """Return the value exceeded with probability `level`.

    Where fewer than ENOUGH draws exceed it, extrapolate by the tail of Student's t, or of the normal distribution if
    `freedom` is None.
    """
    if level >= 1:
        return 0.0
    count = len(values)
    enough = min(ENOUGH, count // 4) / count
    if level >= enough:
        return float(np.partition(values, position := int(np.ceil(count * (1 - level))) - 1)[position])
    start = quantile_of(values, enough, freedom)
    if freedom is None:
        return float(-special.ndtri(special.ndtr(-start) * level / enough))
    return float(student(special.stdtr(freedom, -start) * level / enough, freedom))


def simulate_studies(design: Design) -> tuple[Float[ndarray, "n looks"], Float[ndarray, " n"]]:
    """Draw studies without any difference between rows.

    Return each draw's largest statistic at each look, and its largest statistic with a known variance, for the texts'
    part.
    """
    rows, looks = design.rows, design.looks
    left, right = np.array(design.pairs).T
    factored = len(looks) == 1 and looks[0] > max(LOOKS[-1], rows)
    size = max(rows * (rows if factored else looks[-1]), 3 * len(left))
    fewest = min(FEWEST_DRAWS, design.draws // 20)
    count = int(np.clip(NUMBERS * design.draws // size, fewest, design.draws))
    block = max(200, min(count, 2_000_000 // size))
    generator = np.random.default_rng(20250625)
    largest, texts = [], []
    for begin in range(0, count, block):
        here = min(block, count - begin)
        if factored:
            looked = [statistics(*factors(generator, here, rows, looks[0]), looks[0], left, right)]
        else:
            drawn = generator.standard_normal((here, rows, looks[-1]))
            looked = [statistics(*centre(drawn[:, :, :seeds]), seeds, left, right) for seeds in looks]
        largest.append(np.stack(looked, 1))
        normal = generator.standard_normal((here, rows))
        texts.append(np.abs(normal[:, left] - normal[:, right]).max(1) / np.sqrt(2))
    return np.concatenate(largest), np.concatenate(texts)


def centre(drawn: Float[ndarray, "n k s"]) -> tuple[Float[ndarray, "n k"], Float[ndarray, "n k s"]]:
    """Return the mean of each row, and the values without it."""
    means = drawn.mean(2)
    return means, drawn - means[:, :, None]


def factors(
    generator: np.random.Generator, count: int, rows: int, seeds: int
) -> tuple[Float[ndarray, "n k"], Float[ndarray, "n k k"]]:
    """Draw what `centre` returns for normal values of many seeds: means, and a matrix with the same products of
    rows, which have Wishart's distribution (Bartlett's decomposition)."""
    factor = np.tril(generator.standard_normal((count, rows, rows)), -1)
    free = seeds - 1 - np.arange(rows)
    factor[:, np.arange(rows), np.arange(rows)] = np.sqrt(generator.chisquare(free, (count, rows)))
    return generator.standard_normal((count, rows)) / np.sqrt(seeds), factor


def statistics(
    means: Float[ndarray, "n k"], centred: Float[ndarray, "n k r"], seeds: int, left: ndarray, right: ndarray
) -> Float[ndarray, " n"]:
    """Return each draw's largest statistic."""
    rows = means.shape[1]
    residuals = np.square(centred - centred.mean(1, keepdims=True)).sum(2)
    pool = residuals.sum(1) / ((rows - 1) * (seeds - 1))
    of_pair = squared_distances(centred, left, right) / (seeds - 1)
    by_row = residuals * rows / (rows - 1) / (seeds - 1)
    variance = floored(of_pair, pool[:, None], by_row.take(left, 1), by_row.take(right, 1))
    differences = np.abs(means.take(left, 1) - means.take(right, 1))
    largest: Float[ndarray, " n"] = (differences / np.sqrt(variance / seeds)).max(1)
    return largest


def squared_distances(values: Float[ndarray, "n k s"], left: ndarray, right: ndarray) -> Float[ndarray, "n pairs"]:
    """Return the squared distance of each pair of rows; for many pairs through the products of all rows."""
    if 16 * len(left) <= values.shape[1] ** 2:
        return np.square(values.take(left, 1) - values.take(right, 1)).sum(2)
    products = np.einsum("nis,njs->nij", values, values)
    sizes = np.einsum("nii->ni", products)
    places = left * values.shape[1] + right
    return sizes.take(left, 1) + sizes.take(right, 1) - 2 * products.reshape(len(values), -1).take(places, 1)


def floored(of_pair: ndarray, pool: ndarray, first: ndarray, second: ndarray) -> ndarray:
    """Return the variance of a pair's difference at one seed: the largest of the three estimates.

    `of_pair`: variance of the pair's differences; `pool`: the pooled residual; `first`, `second`: residual of each row.
    """
    return np.maximum(np.maximum(of_pair, 2 * pool), OWN * np.maximum(first, second))
