"""Test differences between rows over seeds and texts: one model, simultaneous intervals and p-values.

The score of a row at a seed on a text is the row's mean, plus an effect of the seed on all rows, an effect of the text
on all rows, row × seed, row × text, and the rest. A difference of two rows over S seeds and T texts then has the
variance  σ²(row × seed) / S + σ²(row × text) / T + σ²(rest) / (S T).  The first and the last part are estimated
together, from the seeds: by the pooled residual of rows × seeds, floored by the pair's own variance and by the residual
of each of its rows (`cutoffs.floored`). The second is estimated from the texts, which are many. A difference must reach
√(c² · seeds' part + z² · texts' part), where c and z are the cut-offs for each part alone and for all comparisons
together: the combined limit errs at most as often as its parts (Banerjee, 1961).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray
from scipy import special

from reports.statistics.cutoffs import DRAWS, LEVELS, Cutoffs, Design, Pair, cutoffs, floored, looks_up_to, student
from reports.statistics.kept import kept

ALPHA = 0.05
ROUNDING = 1e-12  # a spread below this share of the values counts as 0
SUSPECT = 0.02  # share of studies with equal variances in which a row is suspected all the same
LEAVE_OUT = 0.001  # … and in which one is left out of the pool
MOVES = 1.0  # variance that a seed is expected to give to all rows, for a variance of 1 of each row at a seed
SHARE_DRAWS = 50_000  # simulated studies for the largest share of variance
RANK = 1e-9  # singular values below this share of the largest are rounding


@dataclass(frozen=True)
class Measurements:
    """One score of k rows at s seeds over the same data."""

    values: Float[ndarray, "k s"]  # nan where a row has no such seed
    per_text: ndarray | None = None  # rows × seeds × texts, if the score is the mean over texts
    texts: int | None = None  # number of texts, if the score is made of counts of texts

    @cached_property
    def measured(self) -> Bool[ndarray, "k s"]:
        """Return which rows have which seeds."""
        return np.isfinite(self.values)

    def common(self, pair: Pair) -> Bool[ndarray, " s"]:
        """Return which seeds both rows have."""
        return self.measured[pair[0]] & self.measured[pair[1]]

    @cached_property
    def smallest_step(self) -> float:
        """Return the change of the score when one text changes; 0 for a score that does not count texts."""
        if self.texts is not None:
            return 1 / self.texts
        if self.per_text is None or self.per_text.shape[2] < 2:
            return 0.0
        counts = self.per_text.dtype == bool or bool((self.per_text == np.round(self.per_text)).all())
        return 1 / self.per_text.shape[2] if counts else 0.0


@dataclass(frozen=True)
class Decided:
    """One comparison: the first row minus the second, with the parts of its variance.

    The interval is simultaneous for all comparisons of the family. Without a test, p and half_width are nan.
    """

    difference: float
    half_width: float
    p: float
    seeds: int  # number of seeds that both rows have
    from_seeds: float  # the seeds' part of the variance of the difference
    from_texts: float  # the texts' part
    freedom: float  # degrees of freedom of the pool
    unequal: bool = False  # True if one of the two rows is suspected to vary more than the others
    of_pair: float | None = None  # from_seeds by the pair's own variance, if unequal


@dataclass(frozen=True)
class Family:
    """Comparisons that share a significance level."""

    rows: int  # whose variances are pooled
    pairs: Sequence[Pair]
    share: float = 1.0  # the part of ALPHA that they may spend
    most_seeds: int | None = None  # of a study that adds seeds, whose looks share the level; else None

    def cutoffs(self, seeds: int, draws: int = DRAWS) -> Cutoffs:
        """Return the cut-offs at so many seeds; in a study that adds seeds, of the last look up to that number."""
        pairs = tuple(self.pairs)
        if self.most_seeds is None:
            return cutoffs(Design(self.rows, pairs, (seeds,), draws))[0]
        looks = looks_up_to(max(self.most_seeds, seeds))
        number = max((i for i, look in enumerate(looks) if look <= seeds), default=0)
        return cutoffs(Design(self.rows, pairs, looks, draws))[number]


@dataclass(frozen=True)
class Pool:
    """The pooled residual of rows × seeds."""

    variance: float  # without the rows that surely vary unequally
    freedom: int
    rows: Float[ndarray, " k"]  # each row's own residual variance; 0 for a row left out of the pool
    unequal: frozenset[int]  # rows suspected to vary unequally


def decide(
    measured: Measurements,
    pairs: Sequence[Pair],
    share: float = 1.0,
    most_seeds: int | None = None,
    family: Sequence[Pair] | None = None,
) -> list[Decided]:
    """Compare each pair of rows, the first minus the second.

    `share`, `most_seeds`: see `Family`. `family`: all pairs that share the level, if `pairs` are only some of them. A
    study that adds seeds judges a pair by the seeds that both rows have: with later seeds of other rows, one of four
    verdicts of the first look would change.
    """
    seeds_of = [int(measured.common(pair).sum()) for pair in pairs]
    shared = Family(len(measured.values), pairs if family is None else family, share, most_seeds)
    bounds = {seeds: shared.cutoffs(seeds) for seeds in set(seeds_of) if seeds > 1}
    all_seeds = np.ones(measured.values.shape[1], bool)
    step, pools = measured.smallest_step, dict[bytes, Pool]()
    decided = []
    for pair, seeds in zip(pairs, seeds_of, strict=True):
        common = measured.common(pair)
        columns = all_seeds if most_seeds is None else common
        if (key := columns.tobytes()) not in pools:
            pools[key] = pooled(measured.values[:, columns], step)
        decided.append(compare_pair(measured, pair, pools[key], bounds.get(seeds), share))
    return decided


def compare_pair(measured: Measurements, pair: Pair, pool: Pool, bounds: Cutoffs | None, share: float) -> Decided:
    """Return one comparison; untested without cut-offs (`bounds`) or without any spread."""
    common = measured.common(pair)
    seeds, rows = int(common.sum()), np.array(pair)
    values = measured.values[rows][:, common]
    difference = float((values[0] - values[1]).mean()) if seeds else np.nan
    if bounds is None:
        return Decided(difference, np.nan, np.nan, seeds, np.nan, np.nan, 0)
    each = None if measured.per_text is None else measured.per_text[rows][:, common]
    step = measured.smallest_step if changes(values, each) else 0.0
    from_texts, rest = (0.0, 0.0) if each is None else text_parts(each)
    from_seeds = max(seeds_part(values, pool_variance(values, pool, pair), step) / seeds, rest)
    unequal = bool(pool.unequal & {*pair})
    if from_seeds + from_texts <= 0:
        return Decided(difference, np.nan, np.nan, seeds, 0.0, 0.0, pool.freedom, unequal)
    of_pair = max(seeds_part(values, own_variance(values), step) / seeds, rest) if unequal else None
    reaches = reaches_of(bounds, seeds, Variances(from_seeds, pool.freedom, of_pair, from_texts))
    half, p = at_level(reaches, ALPHA * share), min(1.0, level_of(reaches, abs(difference)) / share)
    return Decided(difference, half, p, seeds, from_seeds, from_texts, pool.freedom, unequal, of_pair)


class Variances(NamedTuple):
    """Parts of the variance of a mean difference."""

    from_seeds: float  # the seeds' part, by the pool
    freedom: float  # of the pool
    of_pair: float | None  # the seeds' part by the pair's own variance; None if the pair is not tested by it
    from_texts: float


def reaches_of(bounds: Cutoffs, seeds: int, parts: Variances) -> Float[ndarray, " levels"]:
    """Return the size that a difference must reach at each level."""
    by_texts = bounds.texts**2 * parts.from_texts
    reaches: Float[ndarray, " levels"] = np.sqrt(bounds.at_freedom(parts.freedom) ** 2 * parts.from_seeds + by_texts)
    if parts.of_pair is None:
        return reaches
    return np.maximum(reaches, np.sqrt(bounds.alone(seeds - 1) ** 2 * parts.of_pair + by_texts))


def own_variance(values: Float[ndarray, "2 s"]) -> float:
    """Return the variance over seeds of the difference of two rows."""
    return float((values[0] - values[1]).var(ddof=1))


def pool_variance(values: Float[ndarray, "2 s"], pool: Pool, pair: Pair) -> float:
    """Return the variance of the pair's difference at one seed: by the pool, floored by the pair and its rows."""
    first, second = (pool.rows[row] for row in pair)
    return float(floored(*map(np.asarray, (own_variance(values), pool.variance, first, second))))


def changes(values: Float[ndarray, "2 s"], each: ndarray | None) -> bool:
    """Return whether other seeds change a row's score or its value for any text."""
    scores = (np.ptp(values, axis=1) > ROUNDING * np.abs(values).max()).any()
    return bool(scores) or (each is not None and bool((each != each[:, :1]).any()))


def seeds_part(values: Float[ndarray, "2 s"], variance: float, step: float) -> float:
    """Return `variance`, or 0 if it is only rounding error; but at least that of one text (`step`) at S seeds.

    `values`: scores of two rows at S seeds. Seeds that agree more closely than one text agree by luck.
    """
    rounding = (ROUNDING * float(np.abs(values).max(initial=0))) ** 2
    return max(variance if variance > rounding else 0.0, step**2 / values.shape[1])


def pooled(values: Float[ndarray, "k s"], step: float = 0.0) -> Pool:
    """Pool the residuals; leave out rows that surely vary unequally, and mark those that are suspected to."""
    left_out = unequal_rows(values, LEAVE_OUT, step)
    kept = [row for row in range(len(values)) if row not in left_out]
    rest, freedoms = residuals(values[kept])
    sums, freedom = np.square(rest).sum(1), round(float(freedoms.sum()))
    by_row = np.zeros(len(values))
    by_row[kept] = np.where(freedoms > 0, sums / np.where(freedoms > 0, freedoms, 1.0), 0.0)
    unequal = frozenset(unequal_rows(values, SUSPECT, step)) | frozenset(left_out)
    return Pool(float(sums.sum()) / freedom if freedom > 0 else 0.0, freedom, by_row, unequal)


def residuals(values: Float[ndarray, "k s"]) -> tuple[Float[ndarray, "k s"], Float[ndarray, " k"]]:
    """Return the residuals of the fit by rows and seeds (0 where there is no value), and each row's degrees of freedom.

    Where all other rows have stopped, the two that go on leave only half of their spread.
    """
    measured = np.isfinite(values)
    rows, seeds = values.shape
    if measured.all():
        rest = values - values.mean(0) - values.mean(1, keepdims=True) + values.mean()
        return rest, np.full(rows, (rows - 1) * (seeds - 1) / rows)
    row_numbers, seed_numbers = np.nonzero(measured)
    y = values[measured] - values[measured].mean()
    x = np.hstack([np.eye(rows)[row_numbers], np.eye(seeds)[seed_numbers]])
    directions, sizes, _ = np.linalg.svd(x, full_matrices=False)
    directions = directions[:, sizes > RANK * sizes.max(initial=0)]
    rest, free = np.zeros(values.shape), np.zeros(values.shape)
    rest[measured] = y - directions @ (directions.T @ y)
    free[measured] = 1 - np.square(directions).sum(1)
    freedoms = free.sum(1)
    return rest, np.where(freedoms > RANK, freedoms, 0.0)


def pooled_freedom(measured: Measurements) -> float:
    """Return the degrees of freedom of the pooled variance, by which rows have which seeds."""
    return float(residuals(np.where(measured.measured, 0.0, np.nan))[1].sum())


def at_level(values: Float[ndarray, " levels"], level: float) -> float:
    """Interpolate values tabulated at LEVELS, linearly in the logarithm of the level."""
    return float(np.interp(-np.log(level), -np.log(LEVELS), values))


def level_of(reaches: Float[ndarray, " levels"], size: float) -> float:
    """Return the smallest level at which a difference of this size is significant."""
    return float(np.exp(-np.interp(size, reaches, -np.log(LEVELS))))


def text_parts(each: Float[ndarray, "2 s n"]) -> tuple[float, float]:
    """Return the parts of the variance of the mean difference that come from row × text and from the rest.

    The rest, the residual of each text at each seed, is known well from many texts: the seeds' part is never less.
    """
    differences = each[0].astype(float) - each[1]
    seeds, texts = differences.shape
    if texts < 2:
        return 0.0, 0.0
    differences -= differences.mean(1, keepdims=True)
    by_text = differences.mean(0)
    over_texts = float(np.square(by_text).sum()) / (texts - 1) / texts
    rest = float(np.square(differences - by_text).sum()) / (texts - 1) / texts / seeds / max(1, seeds - 1)
    rounding = (ROUNDING * float(np.abs(differences).max())) ** 2
    return max(0.0, over_texts - rest), rest if rest > rounding else 0.0


Untested = Literal["one seed", "no spread", "not comparable"]
Verdict = Literal["better", "worse", "equivalent", "undecided", Untested, "baseline", ""]
DECIDED = ("better", "worse", "equivalent")
TESTED = (*DECIDED, "undecided")


def verdict(difference: float, half_width: float, higher: bool, margin: float | None, seeds: int) -> Verdict:
    """Return the verdict for an interval `difference` ± `half_width`; `seeds` counts those that both rows have."""
    if not math.isfinite(half_width):
        return "one seed" if seeds < 2 else "no spread"
    if margin is not None and abs(difference) + half_width < margin:
        return "equivalent"
    sign = shown_direction(difference, half_width, higher)
    return "undecided" if sign == 0 else "better" if sign > 0 else "worse"


def shown_direction(difference: float, half_width: float, higher: bool) -> int:
    """Return 1 if the whole interval is better, −1 if it is worse (both whatever the margin), 0 if it contains 0."""
    if not math.isfinite(half_width) or abs(difference) <= half_width:
        return 0
    return 1 if (difference > 0) == higher else -1


def unequal_rows(values: Float[ndarray, "k s"], chance: float = SUSPECT, step: float = 0.0) -> list[int]:
    """Return the numbers of rows that vary more than by chance, the most unequal first; none of two rows.

    `step`: the score's smallest change. Rounding to it has the variance step² / 12, which is added to each row's: two
    rows whose scores change equally from seed to seed would otherwise leave all of the residual to a third row.
    """
    complete = values[:, np.isfinite(values).all(0)]
    rest, unequal = list(range(len(values))), list[int]()
    while len(rest) > 2 and complete.shape[1] > 1:
        shares = shares_of_variance(complete[rest], step**2 / 12)
        if shares.max() <= largest_variance_shares(len(rest), complete.shape[1])[chance]:
            break
        unequal.append(rest.pop(int(shares.argmax())))
    return unequal


def shares_of_variance(values: Float[ndarray, "... k s"], rounding: float = 0.0) -> Float[ndarray, "... k"]:
    """Return each row's share of the residual of rows × seeds, with the variance of its `rounding` added; equal shares
    where there is no residual."""
    rest = values - values.mean(-1, keepdims=True)
    sizes = np.square(rest - np.median(rest, -2, keepdims=True)).sum(-1) + rounding * (values.shape[-1] - 1)
    total = sizes.sum(-1, keepdims=True)
    return np.where(total > 0, sizes / np.where(total > 0, total, 1.0), 1 / values.shape[-2])


@lru_cache(maxsize=256)
def largest_variance_shares(rows: int, seeds: int) -> dict[float, float]:
    """Return, for SUSPECT and LEAVE_OUT, the value that the largest row's share of the residual exceeds with this
    chance if all rows have equal variance (simulated)."""

    def simulate() -> ndarray:
        count, block = (min(SHARE_DRAWS, numbers // (rows * seeds) or 1) for numbers in (20_000_000, 100_000))
        generator, largest = np.random.default_rng(20250625), list[ndarray]()
        for begin in range(0, count, block):
            drawn = generator.standard_normal((min(block, count - begin), rows, seeds))
            largest.append(shares_of_variance(drawn).max(-1))
        return np.array([np.quantile(np.concatenate(largest), 1 - chance) for chance in (SUSPECT, LEAVE_OUT)])

    return dict(zip((SUSPECT, LEAVE_OUT), kept(simulate, rows, seeds).tolist(), strict=True))


Sample = tuple[int, float, float]  # number of values, mean, and standard deviation


def worth_pairing(shared: int, counts: tuple[int, int], freedom: float, tests: int) -> bool:
    """Return whether two rows are compared by the seeds that both have (paired), or by all runs (Welch).

    The choice is by numbers of runs alone, so that no value can influence it: the one whose interval is expected to be
    narrower. `freedom`: of the pooled variance. Rows with the same seeds are always paired.
    """
    if shared == max(counts):
        return True
    if shared < 2:
        return False
    first, second = (1 / count for count in counts)
    welch = (first + second) ** 2 / (first**2 / (counts[0] - 1) + second**2 / (counts[1] - 1))
    tail = np.array(ALPHA / 2 / tests)
    by_seed = student(tail, max(freedom, 1.0)) * (2 / shared) ** 0.5
    return bool(by_seed <= student(tail, welch) * ((1 + MOVES) * (first + second)) ** 0.5)


def compare_samples(ours: Sample, theirs: Sample, tests: int, share: float) -> Decided:
    """Return Welch's test of two rows; without a spread, p and half_width are nan."""
    difference, seeds = ours[1] - theirs[1], min(ours[0], theirs[0])
    spreads = [deviation if deviation > ROUNDING * abs(mean) else 0.0 for _, mean, deviation in (ours, theirs)]
    parts = [spread**2 / row[0] for spread, row in zip(spreads, (ours, theirs), strict=True)]
    variance = sum(parts)
    if seeds < 2 or not variance > 0:
        return Decided(difference, np.nan, np.nan, seeds, variance, 0.0, 0)
    freedom = variance**2 / sum(part**2 / (row[0] - 1) for part, row in zip(parts, (ours, theirs), strict=True))
    half = float(student(np.array(ALPHA * share / 2 / tests), freedom)) * variance**0.5
    p = min(1.0, 2 * tests / share * float(special.stdtr(freedom, -abs(difference) / variance**0.5)))
    return Decided(difference, half, p, seeds, variance, 0.0, freedom)
