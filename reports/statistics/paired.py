"""Differences of configurations that were measured at the same seeds, and where it is known, of the same texts."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray
from scipy import stats

from reports.statistics.summary import CONFIDENCE

DRAWS = 2000
NOTHING = 1e-12  # of the variances that a difference is made of: below it is rounding


@dataclass(frozen=True)
class Difference:
    """Ours − theirs. Without a test, standard_error, freedom, half_width and p are None."""

    mean: float
    standard_error: float | None
    freedom: float | None
    half_width: float | None  # of the 95 % interval
    p: float | None
    seeds: int
    over_texts: bool  # whether the variance has the part of the texts


@dataclass(frozen=True)
class Pairs:
    """The differences of all rows, i − j; nan where there is no test."""

    mean: Float[ndarray, "k k"]
    standard_error: Float[ndarray, "k k"]
    freedom: Float[ndarray, "k k"]
    p: Float[ndarray, "k k"]


def paired(
    ours: Float[ndarray, " s"],
    theirs: Float[ndarray, " s"],
    ours_each: ndarray | None = None,
    theirs_each: ndarray | None = None,
) -> Difference:
    """The difference over the seeds that both know; `each`, s × n, has the values of the texts that a score averages."""
    both = np.isfinite(ours) & np.isfinite(theirs)
    each = None if ours_each is None or theirs_each is None else np.stack([ours_each[both], theirs_each[both]])
    pairs = all_pairs(np.stack([ours[both], theirs[both]]), each)
    mean, error, freedom, p = (float(x[0, 1]) for x in (pairs.mean, pairs.standard_error, pairs.freedom, pairs.p))
    seeds = int(both.sum())
    if np.isnan(p):
        return Difference(mean, None, None, None, None, seeds, each is not None)
    half_width = float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom)) * error
    return Difference(mean, error, freedom, half_width, p, seeds, each is not None)


def all_pairs(values: Float[ndarray, "k s"], each: ndarray | None = None) -> Pairs:
    """Each row against each other; seeds and texts are random and crossed, t with Satterthwaite's freedom."""
    rows, seeds = values.shape
    mean = np.subtract.outer(values.mean(1), values.mean(1)) if seeds else np.full((rows, rows), np.nan)
    nothing = np.full((rows, rows), np.nan)
    if seeds < 2:
        return Pairs(mean, nothing, nothing, nothing)
    over_seeds = between(values - values.mean(1, keepdims=True)) / (seeds - 1) / seeds
    variance, uncertainty = over_seeds, over_seeds**2 / (seeds - 1)
    if each is not None and each.shape[2] > 1:
        over_texts, rest = text_variances(each)
        texts = each.shape[2]
        variance = over_seeds + np.maximum(over_texts - rest, 0)
        uncertainty = uncertainty + (over_texts**2 + rest**2 / (seeds - 1)) / (texts - 1)
    known = variance > 0
    error = np.sqrt(np.where(known, variance, np.nan))
    freedom = np.divide(variance**2, uncertainty, out=nothing.copy(), where=known)
    return Pairs(mean, error, freedom, 2 * stats.t.sf(np.abs(mean) / error, freedom))


def text_variances(each: ndarray) -> tuple[Float[ndarray, "k k"], Float[ndarray, "k k"]]:
    """Of the mean difference: what the texts alone would give it, and what is left to each text at each seed."""
    rows, seeds, texts = each.shape
    centred = each - each.mean(2, keepdims=True, dtype=float)
    by_text = centred.mean(1)
    rest = (centred - by_text[:, None]).reshape(rows, -1)
    return between(by_text) / (texts - 1) / texts, between(rest) / (seeds - 1) / (texts - 1) / (seeds * texts)


def between(rows: Float[ndarray, "k d"]) -> Float[ndarray, "k k"]:
    """Squared distances of the rows by their products, without a difference of each pair; rounding is nothing."""
    products = rows @ rows.T
    sizes = np.add.outer(np.diag(products), np.diag(products))
    distances = sizes - 2 * products
    return np.where(distances > NOTHING * sizes, distances, 0.0)


def mcnemar(ours: Bool[ndarray, " n"], theirs: Bool[ndarray, " n"]) -> tuple[int, int, float]:
    """Two trained models: texts that only ours has right, that only theirs has, and the exact p. No word of recipes."""
    only_ours, only_theirs = int((ours & ~theirs).sum()), int((theirs & ~ours).sum())
    differing = only_ours + only_theirs
    p = stats.binomtest(only_ours, differing).pvalue if differing else 1.0
    return only_ours, only_theirs, float(p)


def bootstrap(ours_each: ndarray, theirs_each: ndarray, seed: int, draws: int = DRAWS) -> tuple[float, float]:
    """95 % interval of the mean difference over texts drawn again, the trained models as they are."""
    difference = np.subtract(ours_each, theirs_each, dtype=float)
    difference = difference.reshape(-1, difference.shape[-1]).mean(0)
    generator = np.random.default_rng(seed)
    means = [difference[generator.integers(len(difference), size=len(difference))].mean() for _ in range(draws)]
    low, high = np.quantile(means, tails())
    return float(low), float(high)


def improvement(
    ours: Float[ndarray, " s"], theirs: Float[ndarray, " s"], seed: int, draws: int = DRAWS
) -> tuple[float, float, float]:
    """Probability that ours is greater at a seed of its own, ties half, with an interval over seeds drawn again."""
    wins = (np.sign(np.subtract.outer(ours, theirs)) + 1) / 2
    generator = np.random.default_rng(seed)
    one = generator.integers(len(ours), size=(draws, len(ours)))
    other = generator.integers(len(theirs), size=(draws, len(theirs)))
    low, high = np.quantile(wins[one[:, :, None], other[:, None, :]].mean((1, 2)), tails())
    return float(wins.mean()), float(low), float(high)


def tails() -> tuple[float, float]:
    return (1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2
