"""How large the largest of several studentised differences becomes by chance: Monte Carlo of that very statistic.

The statistic of a pair is |difference| / √(variance / seeds), where the variance of the pair is the largest one of
three estimates: the pooled one of all rows; the pair's own; and, so that a noisy row does not pass for one of the pool,
three times what either of its two rows leaves by itself (`floored`). Under equal variances the distribution depends on
the rows, the pairs and the seeds alone. Where a study looks several times, a level is spent in proportion to the seeds
so far (Lan and DeMets, 1983). The texts are the same at all looks: a look may spend on them what all looks up to it
may spend on seeds; with the whole level at each look, studies whose variance is half of texts erred 6.5 times of 100.
The same design always gets the same cut-offs: its generator has a fixed seed.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy import special

Pair = tuple[int, int]

LOOKS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20)  # seeds at which a study that decides by itself looks
DRAWS, FEWEST_DRAWS, BUDGET = 100_000, 4_000, 30_000_000  # of a design; numbers that may be drawn for one
OWN = 3.0  # times the residual variance of a row is the least variance of its pairs
ENOUGH = 60  # draws beyond a cut-off; of rarer ones Student's tail tells
LEVELS = 10.0 ** -np.arange(0, 10.01, 0.125)  # at which cut-offs are kept
RATIOS = 200  # quantiles of the estimated variance of a pair, in units of the true one


@dataclass(frozen=True)
class Design:
    """How many rows make the pool, which pairs of rows are compared, and at how many seeds each look is."""

    rows: int
    pairs: tuple[Pair, ...]
    looks: tuple[int, ...]  # one of a study whose number of seeds was fixed beforehand

    def freedom(self, look: int = -1) -> int:
        """Degrees of freedom of the pooled variance."""
        return (self.rows - 1) * (self.looks[look] - 1)


@dataclass(frozen=True)
class Cutoffs:
    """Of one look of a design: what the largest statistic exceeds with each of LEVELS, up to and at this look."""

    seeds: Float[ndarray, " levels"]
    texts: Float[ndarray, " levels"]  # the same of a known variance: that of the texts, which are many
    freedom: int  # of the pooled variance
    pairs: int
    spent: float  # share of the level that this look may spend
    ratios: Float[ndarray, " ratios"]  # quantiles of an estimated variance, in units of the true one

    def at_freedom(self, freedom: float) -> Float[ndarray, " levels"]:
        """Those of seeds where the pool has other degrees of freedom, since some rows have fewer seeds."""
        if freedom >= self.freedom:
            return self.seeds
        tails = np.minimum(LEVELS * self.spent / self.pairs, 0.5) / 2  # that of 1 is no quantile but 0
        return self.seeds * np.maximum(1.0, student(tails, freedom) / student(tails, self.freedom))

    def alone(self, freedom: float) -> Float[ndarray, " levels"]:
        """Of a pair that is tested by its own variance: Student's, and Bonferroni's share of the level."""
        return student(LEVELS * self.spent / 2 / self.pairs, freedom)


def student(tail: ndarray, freedom: float) -> ndarray:
    """Student's t with this much probability above it."""
    return -special.stdtrit(freedom, np.maximum(tail, 1e-300))


def all_pairs_of(rows: int) -> tuple[Pair, ...]:
    return tuple((i, j) for i in range(rows) for j in range(i))


def looks_up_to(seeds: int) -> tuple[int, ...]:
    """The looks of a study of at most so many seeds: those that all have, and the last one."""
    return (*(look for look in LOOKS if look < seeds), seeds)


@lru_cache(maxsize=128)
def cutoffs(design: Design) -> tuple[Cutoffs, ...]:
    """Of each look."""
    largest, texts, ratios = drawn_studies(design)
    spent = np.diff([0.0, *design.looks]) / design.looks[-1]
    seeds = np.stack([bounds_of_looks(largest, level, spent, design) for level in LEVELS], 1)
    normal = np.array([[quantile_of(texts, level * share, None) for level in LEVELS] for share in np.cumsum(spent)])
    return tuple(
        Cutoffs(monotone(row), monotone(of_texts), design.freedom(number), len(design.pairs), float(share), look_ratios)
        for number, (row, of_texts, share, look_ratios) in enumerate(zip(seeds, normal, spent, ratios, strict=True))
    )


def monotone(values: Float[ndarray, " levels"]) -> Float[ndarray, " levels"]:
    """A smaller level never has a smaller cut-off; at the level 1 everything exceeds it."""
    values[0] = 0.0
    return np.maximum.accumulate(values)


def bounds_of_looks(
    largest: Float[ndarray, "n looks"], level: float, spent: Float[ndarray, " looks"], design: Design
) -> Float[ndarray, " looks"]:
    """The cut-off of each look, of which the looks before have left only the draws that crossed none."""
    alive, bounds = np.ones(len(largest), bool), np.empty(len(spent))
    for number, share in enumerate(spent):
        values = largest[alive, number]
        mine = level * share * len(largest) / max(1, len(values))  # of those that are left
        bounds[number] = quantile_of(values, mine, design.freedom(number)) if len(values) else np.inf
        alive[alive] = values <= bounds[number]
    return bounds


def quantile_of(values: Float[ndarray, " n"], level: float, freedom: int | None) -> float:
    """What is exceeded with a probability; where too few draws exceed it, the tail goes on as Student's does."""
    if level >= 1:
        return 0.0
    count = len(values)
    enough = min(ENOUGH, count // 4) / count
    if level >= enough:
        return float(np.partition(values, position := int(np.ceil(count * (1 - level))) - 1)[position])
    beyond = quantile_of(values, enough, freedom)
    if freedom is None:
        return float(-special.ndtri(special.ndtr(-beyond) * level / enough))
    return float(student(special.stdtr(freedom, -beyond) * level / enough, freedom))


def drawn_studies(
    design: Design,
) -> tuple[Float[ndarray, "n looks"], Float[ndarray, " n"], Float[ndarray, "looks ratios"]]:
    """The largest statistic of each draw at each look; the same of a known variance; and quantiles of the ratio of an
    estimated variance to the true one."""
    rows, looks = design.rows, design.looks
    left, right = np.array(design.pairs).T
    size = max(rows * looks[-1], 3 * len(left))
    count = int(np.clip(BUDGET // size, FEWEST_DRAWS, DRAWS))
    block = max(200, min(count, 2_000_000 // size))
    generator = np.random.default_rng(20250625)
    largest, texts, ratios = [], [], []
    for begin in range(0, count, block):
        drawn = generator.standard_normal((min(block, count - begin), rows, looks[-1]))
        parts = [statistics(drawn[:, :, :seeds], left, right) for seeds in looks]
        largest.append(np.stack([statistic for statistic, _ in parts], 1))
        ratios.append(np.stack([ratio for _, ratio in parts], 1))
        normal = generator.standard_normal((len(drawn), rows))
        texts.append(np.abs(normal[:, left] - normal[:, right]).max(1) / np.sqrt(2))
    levels = (np.arange(RATIOS) + 0.5) / RATIOS
    return np.concatenate(largest), np.concatenate(texts), np.quantile(np.concatenate(ratios), levels, axis=0).T


def statistics(
    drawn: Float[ndarray, "n k s"], left: ndarray, right: ndarray
) -> tuple[Float[ndarray, " n"], Float[ndarray, " n"]]:
    """The largest statistic of each draw, and of its first pair the estimated variance by the true one."""
    rows, seeds = drawn.shape[1:]
    means = drawn.mean(2)
    centred = drawn - means[:, :, None]
    residuals = np.square(centred - centred.mean(1, keepdims=True)).sum(2)
    pool = residuals.sum(1) / ((rows - 1) * (seeds - 1))
    own = squared_distances(centred, left, right) / (seeds - 1)
    alone = residuals * rows / (rows - 1) / (seeds - 1)
    variance = floored(own, pool[:, None], alone[:, left], alone[:, right])
    return (np.abs(means[:, left] - means[:, right]) / np.sqrt(variance / seeds)).max(1), variance[:, 0] / 2


def squared_distances(values: Float[ndarray, "n k s"], left: ndarray, right: ndarray) -> Float[ndarray, "n pairs"]:
    """Of few pairs one by one; of all pairs of many rows by their products."""
    if 16 * len(left) <= values.shape[1] ** 2:
        return np.square(values[:, left] - values[:, right]).sum(2)
    products = np.einsum("nis,njs->nij", values, values)
    sizes = np.einsum("nii->ni", products)
    return sizes[:, left] + sizes[:, right] - 2 * products[:, left, right]


def floored(own: ndarray, pool: ndarray, ours: ndarray, theirs: ndarray) -> ndarray:
    """The variance of a pair's difference at one seed: from its own differences, the pool, and what each row leaves."""
    return np.maximum(np.maximum(own, 2 * pool), OWN * np.maximum(ours, theirs))
