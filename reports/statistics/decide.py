"""What measurements of rows at several seeds, and of several texts, decide: one model for every comparison.

A score of a row at a seed and of a text is the row's mean, plus what the seed does to all rows, plus what the text does
to all rows, plus row × seed, row × text, and the rest. A difference of two rows over S seeds and T texts then has the
variance  σ²(row × seed) / S + σ²(row × text) / T + σ²(rest) / (S T).  Its first and last part are estimated together,
from the seeds: by the pooled residual of rows × seeds, floored by what the pair and its rows leave by themselves
(`cutoffs.floored`). The second is estimated from the texts, which are many. A difference must reach
√(c² · seeds' part + z² · texts' part), each cut-off for its own part and for all comparisons together: such a sum errs
at most as often as its parts (Banerjee, 1961).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray
from scipy import special

from reports.statistics.cutoffs import LEVELS, Cutoffs, Design, Pair, cutoffs, floored, looks_up_to

ALPHA = 0.05
RANK = 1e-9  # of the largest: a smaller size is rounding


@dataclass(frozen=True)
class Measurements:
    """One score of rows over the same data. `values`: nan where a row has no such seed. `each`: what each text gives,
    where the score is the mean of that; `texts`: of how many it counts, where it is made of counts."""

    values: Float[ndarray, "k s"]
    each: ndarray | None = None
    texts: int | None = None

    @cached_property
    def there(self) -> Bool[ndarray, "k s"]:
        return np.isfinite(self.values)

    def common(self, pair: Pair) -> Bool[ndarray, " s"]:
        return self.there[pair[0]] & self.there[pair[1]]

    @property
    def smallest_step(self) -> float:
        """What one text is of a score; 0 of a score that does not count texts."""
        if self.texts is not None:
            return 1 / self.texts
        if self.each is None or self.each.shape[2] < 2:
            return 0.0
        counts = self.each.dtype == bool or bool((self.each == np.round(self.each)).all())
        return 1 / self.each.shape[2] if counts else 0.0


@dataclass(frozen=True)
class Decided:
    """One comparison: ours − theirs, with what its variance is made of; the interval holds for all comparisons of the
    family together. Without a test p and half_width are nan."""

    difference: float
    half_width: float
    p: float
    seeds: int  # that both have
    from_seeds: float  # part of the variance of the difference
    from_texts: float
    freedom: float
    unequal: bool = False  # whether one of the two rows varies so otherwise that it makes no pool with the rest
    own: float | None = None  # of such a pair, from_seeds by itself
    reaches: Float[ndarray, " levels"] = field(default_factory=lambda: np.full(len(LEVELS), np.nan), repr=False)

    @property
    def low(self) -> float:
        return self.difference - self.half_width

    @property
    def high(self) -> float:
        return self.difference + self.half_width


@dataclass(frozen=True)
class Pool:
    """The residual of rows × seeds, without the rows that surely vary otherwise; what each row leaves by itself; and
    which rows are suspected to vary otherwise."""

    variance: float
    freedom: int
    rows: Float[ndarray, " k"]
    unequal: frozenset[int]


def decide(
    measured: Measurements,
    pairs: Sequence[Pair],
    share: float = 1.0,
    most_seeds: int | None = None,
    family: Sequence[Pair] | None = None,
) -> list[Decided]:
    """Each pair, ours − theirs; `family`: all pairs that share the level, where these are only some of them. `share` of
    the level is this family's; `most_seeds` is that of a study that stops by itself, whose looks share the level: a
    study of a fixed number has none. Such a study decides a pair by what there was when it was decided: what other rows
    train later would take back one of four verdicts of the first look."""
    seeds_of = [int(measured.common(pair).sum()) for pair in pairs]
    together, rows = tuple(pairs if family is None else family), len(measured.values)
    bounds = {seeds: cutoffs_for(rows, together, seeds, most_seeds) for seeds in set(seeds_of) if seeds > 1}
    everything = np.ones(measured.values.shape[1], bool)
    pools: dict[bytes, Pool] = {}
    decided = []
    for pair, seeds in zip(pairs, seeds_of, strict=True):
        common = measured.common(pair)
        columns = everything if most_seeds is None else common
        if (key := columns.tobytes()) not in pools:
            pools[key] = pooled(measured.values[:, columns])
        decided.append(one_pair(measured, pair, pools[key], bounds.get(seeds), share))
    return decided


def cutoffs_for(rows: int, pairs: tuple[Pair, ...], seeds: int, most_seeds: int | None) -> Cutoffs:
    """Of a study that stops by itself: those of the last look with no more seeds than that."""
    if most_seeds is None:
        return cutoffs(Design(rows, pairs, (seeds,)))[0]
    looks = looks_up_to(max(most_seeds, seeds))
    number = max((i for i, look in enumerate(looks) if look <= seeds), default=0)
    return cutoffs(Design(rows, pairs, looks))[number]


def one_pair(measured: Measurements, pair: Pair, pool: Pool, bounds: Cutoffs | None, share: float) -> Decided:
    common = measured.common(pair)
    seeds, rows = int(common.sum()), np.array(pair)
    values = measured.values[rows][:, common]
    difference = float((values[0] - values[1]).mean()) if seeds else np.nan
    if bounds is None:
        return Decided(difference, np.nan, np.nan, seeds, np.nan, np.nan, 0)
    each = None if measured.each is None else measured.each[rows][:, common]
    step = measured.smallest_step if changes(values, each) else 0.0
    from_texts, rest = (0.0, 0.0) if each is None else text_parts(each)
    from_seeds = max(seeds_part(values, pool_variance(values, pool, pair), step) / seeds, rest)
    unequal = bool(pool.unequal & {*pair})
    if from_seeds + from_texts <= 0:
        return Decided(difference, np.nan, np.nan, seeds, 0.0, 0.0, pool.freedom, unequal)
    own = max(seeds_part(values, own_variance(values), step) / seeds, rest) if unequal else None
    reaches = reaches_of(bounds, seeds, Variances(from_seeds, pool.freedom, own, from_texts))
    half, p = at_level(reaches, ALPHA * share), min(1.0, level_of(reaches, abs(difference)) / share)
    return Decided(difference, half, p, seeds, from_seeds, from_texts, pool.freedom, unequal, own, reaches)


class Variances(NamedTuple):
    """Parts of the variance of a mean difference: of the seeds by the pool, and by the pair itself where it is tested
    by that too; of the texts."""

    from_seeds: float
    freedom: float  # of the pool
    own: float | None
    from_texts: float


def reaches_of(bounds: Cutoffs, seeds: int, parts: Variances) -> Float[ndarray, " levels"]:
    """What a difference must reach at each level."""
    of_texts = bounds.texts**2 * parts.from_texts
    reaches: Float[ndarray, " levels"] = np.sqrt(bounds.at_freedom(parts.freedom) ** 2 * parts.from_seeds + of_texts)
    if parts.own is None:
        return reaches
    return np.maximum(reaches, np.sqrt(bounds.alone(seeds - 1) ** 2 * parts.own + of_texts))


def own_variance(values: Float[ndarray, "2 s"]) -> float:
    return float((values[0] - values[1]).var(ddof=1))


def pool_variance(values: Float[ndarray, "2 s"], pool: Pool, pair: Pair) -> float:
    """Of the pair's difference at one seed, by the pool; never less than the pair and its rows leave by themselves."""
    ours, theirs = (pool.rows[row] for row in pair)
    return float(floored(*map(np.asarray, (own_variance(values), pool.variance, ours, theirs))))


def changes(values: Float[ndarray, "2 s"], each: ndarray | None) -> bool:
    """Whether another seed changes a score, or at least what any text gives."""
    scores = (np.ptp(values, axis=1) > ROUNDING * np.abs(values).max()).any()
    return bool(scores) or (each is not None and bool((each != each[:, :1]).any()))


def seeds_part(values: Float[ndarray, "2 s"], variance: float, step: float) -> float:
    """The same without what is rounding. Where seeds matter it is that of one text at least: to agree nearer than that
    is luck."""
    rounding = (ROUNDING * float(np.abs(values).max(initial=0))) ** 2
    return max(variance if variance > rounding else 0.0, step**2 / values.shape[1])


def pooled(values: Float[ndarray, "k s"]) -> Pool:
    """Rows that vary otherwise than the rest are seen; those that surely do are left out."""
    left_out = unequal_rows(values, LEAVE_OUT)
    kept = [row for row in range(len(values)) if row not in left_out]
    rest, freedoms = residuals(values[kept])
    sums, freedom = np.square(rest).sum(1), round(float(freedoms.sum()))
    alone = np.zeros(len(values))
    alone[kept] = np.where(freedoms > 0, sums / np.where(freedoms > 0, freedoms, 1.0), 0.0)
    unequal = frozenset(unequal_rows(values)) | frozenset(left_out)
    return Pool(float(sums.sum()) / freedom if freedom > 0 else 0.0, freedom, alone, unequal)


def residuals(values: Float[ndarray, "k s"]) -> tuple[Float[ndarray, "k s"], Float[ndarray, " k"]]:
    """What rows and seeds leave of the values that there are (0 elsewhere), and each row's degrees of freedom: where
    other rows have stopped, the two that go on leave only half of their spread."""
    there = np.isfinite(values)
    rows, seeds = values.shape
    if there.all():
        rest = values - values.mean(0) - values.mean(1, keepdims=True) + values.mean()
        return rest, np.full(rows, (rows - 1) * (seeds - 1) / rows)
    of_row, of_seed = np.nonzero(there)
    y = values[there] - values[there].mean()
    x = np.hstack([np.eye(rows)[of_row], np.eye(seeds)[of_seed]])
    directions, sizes, _ = np.linalg.svd(x, full_matrices=False)
    directions = directions[:, sizes > RANK * sizes.max(initial=0)]
    rest, free = np.zeros(values.shape), np.zeros(values.shape)
    rest[there] = y - directions @ (directions.T @ y)
    free[there] = 1 - np.square(directions).sum(1)
    freedoms = free.sum(1)
    return rest, np.where(freedoms > RANK, freedoms, 0.0)


def at_level(values: Float[ndarray, " levels"], level: float) -> float:
    """What is kept at LEVELS, between them by the logarithm of the level."""
    return float(np.interp(-np.log(level), -np.log(LEVELS), values))


def level_of(reaches: Float[ndarray, " levels"], size: float) -> float:
    """The level at which a difference of this size reaches what it must."""
    return float(np.exp(-np.interp(size, reaches, -np.log(LEVELS))))


ROUNDING = 1e-12  # of the values: a spread below it is none


def text_parts(each: Float[ndarray, "2 s n"]) -> tuple[float, float]:
    """Of the variance of the mean difference: what the choice of the texts adds (rows × texts, less what is left to
    each text at each seed), and what is left, which other seeds would change at least and many texts tell well."""
    apart = each[0].astype(float) - each[1]
    seeds, texts = apart.shape
    if texts < 2:
        return 0.0, 0.0
    apart -= apart.mean(1, keepdims=True)
    by_text = apart.mean(0)
    over_texts = float(np.square(by_text).sum()) / (texts - 1) / texts
    rest = float(np.square(apart - by_text).sum()) / (texts - 1) / texts / seeds / max(1, seeds - 1)
    rounding = (ROUNDING * float(np.abs(apart).max())) ** 2
    return max(0.0, over_texts - rest), rest if rest > rounding else 0.0


def mcnemar(ours: Bool[ndarray, " n"], theirs: Bool[ndarray, " n"]) -> tuple[int, int, float]:
    """Two trained models: texts that only ours has right, that only theirs has, and the exact p. No word of recipes."""
    only_ours, only_theirs = int((ours & ~theirs).sum()), int((theirs & ~ours).sum())
    differing = only_ours + only_theirs
    p = min(1.0, 2 * float(special.bdtr(min(only_ours, only_theirs), differing, 0.5))) if differing else 1.0
    return only_ours, only_theirs, p


def improvement(ours: Float[ndarray, " s"], theirs: Float[ndarray, " s"]) -> float:
    """How often ours is greater at a seed of its own than theirs at one of its own, ties half. It describes the seeds
    that were run: an interval from few of them covers far less than it says (67 % at two, 91 % at five)."""
    return float(((np.sign(np.subtract.outer(ours, theirs)) + 1) / 2).mean())


DRAWS = 50_000
SUSPECT = 0.02  # of studies whose rows vary alike, the share in which one is suspected all the same
LEAVE_OUT = 0.001  # … and the share in which one is left out of the pool


def unequal_rows(values: Float[ndarray, "k s"], chance: float = SUSPECT) -> list[int]:
    """Their numbers, the most unequal first. Of two rows nothing can tell which of them varies more."""
    complete = values[:, np.isfinite(values).all(0)]
    left, unequal = list(range(len(values))), list[int]()
    while len(left) > 2 and complete.shape[1] > 1:
        shares = shares_of_variance(complete[left])
        if shares.max() <= largest_share(len(left), complete.shape[1], chance):
            break
        unequal.append(left.pop(int(shares.argmax())))
    return unequal


def shares_of_variance(values: Float[ndarray, "... k s"]) -> Float[ndarray, "... k"]:
    """How much of the residual of rows × seeds each row makes; equal shares where there is none."""
    rest = values - values.mean(-1, keepdims=True)
    sizes = np.square(rest - np.median(rest, -2, keepdims=True)).sum(-1)
    total = sizes.sum(-1, keepdims=True)
    return np.where(total > 0, sizes / np.where(total > 0, total, 1.0), 1 / values.shape[-2])


@lru_cache(maxsize=256)
def largest_share(rows: int, seeds: int, chance: float) -> float:
    """What the largest share exceeds with this probability, where all rows vary alike."""
    count, block = (min(DRAWS, numbers // (rows * seeds) or 1) for numbers in (20_000_000, 1_000_000))
    generator, largest = np.random.default_rng(20250625), list[ndarray]()
    for begin in range(0, count, block):
        drawn = generator.standard_normal((min(block, count - begin), rows, seeds))
        largest.append(shares_of_variance(drawn).max(-1))
    return float(np.quantile(np.concatenate(largest), 1 - chance))
