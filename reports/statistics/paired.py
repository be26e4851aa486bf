"""Differences of configurations that were measured at the same seeds, and where it is known, of the same texts."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray
from scipy import special

from reports.bilingual import Words
from reports.statistics.spread import Spread, half_width, significance

ONE_SEED = Words("one seed says nothing of how much a result varies", "单个种子无法说明结果的波动")
NO_SPREAD = Words(
    "the difference is the same at every seed, so that its spread is not known",
    "各种子下的差值完全相同，无法估计其波动",
)
ROUNDING = 1e-12  # of the values: a spread below it is none
NOTHING = 1e-12  # of the variances that a difference is made of: below it is rounding


@dataclass(frozen=True)
class Difference:
    """Ours − theirs. Where there is no test, `reason` says why, and spread, half_width and p are None."""

    mean: float
    spread: Spread | None
    half_width: float | None  # of the 95 % interval
    p: float | None
    seeds: int
    over_texts: bool  # whether the variance has the part of the texts

    @property
    def standard_error(self) -> float | None:
        return None if self.spread is None else self.spread.standard_error

    @property
    def reason(self) -> Words | None:
        if self.p is not None:
            return None
        return ONE_SEED if self.seeds < 2 else NO_SPREAD


@dataclass(frozen=True)
class Pairs:
    """The differences of all rows, i − j, and the parts of their variances; nan where there is no test."""

    mean: Float[ndarray, "k k"]
    seeds: Float[ndarray, "k k"]
    texts: Float[ndarray, "k k"]
    p: Float[ndarray, "k k"]
    freedom: float
    texts_freedom: float


def paired(
    ours: Float[ndarray, " s"],
    theirs: Float[ndarray, " s"],
    ours_each: ndarray | None = None,
    theirs_each: ndarray | None = None,
    texts: int | None = None,
) -> Difference:
    """The difference over the seeds that both know; `each`, s × n, has the values of texts that a score averages.

    `texts` is for scores that count texts and are no mean of them, such as macro-F1: of how many it is.
    """
    both = np.isfinite(ours) & np.isfinite(theirs)
    each = None if ours_each is None or theirs_each is None else np.stack([ours_each[both], theirs_each[both]])
    pairs = all_pairs(np.stack([ours[both], theirs[both]]), each, texts)
    mean, p, seeds = float(pairs.mean[0, 1]), float(pairs.p[0, 1]), int(both.sum())
    over_texts = bool(np.isfinite(pairs.texts_freedom))
    if np.isnan(p):
        return Difference(mean, None, None, None, seeds, over_texts)
    spread = Spread(float(pairs.seeds[0, 1]), pairs.freedom, float(pairs.texts[0, 1]), pairs.texts_freedom)
    return Difference(mean, spread, half_width(spread), p, seeds, over_texts)


def all_pairs(values: Float[ndarray, "k s"], each: ndarray | None = None, texts: int | None = None) -> Pairs:
    """Each row against each other at the same seeds, and of the same texts where `values` are the means of `each`."""
    rows, seeds = values.shape
    nothing = np.full((rows, rows), np.nan)
    if seeds == 0:
        return Pairs(nothing, nothing, nothing, nothing, 0, np.inf)
    mean = np.subtract.outer(values.mean(1), values.mean(1))
    if seeds == 1:
        return Pairs(mean, nothing, nothing, nothing, 0, np.inf)
    from_seeds = squared_distances(values - values.mean(1, keepdims=True)) / (seeds - 1) / seeds
    from_seeds[from_seeds < (ROUNDING * np.abs(values).max(initial=0)) ** 2] = 0.0  # equal seeds, but for rounding
    from_texts, texts_freedom = np.zeros((rows, rows)), np.inf
    if texts is not None:
        from_seeds = np.where(from_seeds > 0, np.maximum(from_seeds, one_step(seeds, texts)), 0.0)
    if each is not None and each.shape[2] > 1 and np.allclose(each.mean(2), values, rtol=1e-3):
        texts_freedom = each.shape[2] - 1
        over_texts, rest = text_variances(each)
        from_texts = np.maximum(over_texts - rest, 0)
        if each.dtype == bool or (each == np.round(each)).all():  # right or wrong
            from_seeds = np.where(rest > 0, np.maximum(from_seeds, one_step(seeds, each.shape[2])), from_seeds)
    above, p = np.triu_indices(rows, 1), nothing.copy()
    p[above] = significance(np.abs(mean[above]), from_seeds[above], seeds - 1, from_texts[above], texts_freedom)
    p.T[above] = p[above]
    return Pairs(mean, from_seeds, from_texts, p, seeds - 1, texts_freedom)


def one_step(seeds: int, texts: int) -> float:
    """The variance where one seed has one text more right than the others: to agree nearer than that is luck."""
    return (1 / (seeds * texts)) ** 2


def text_variances(each: ndarray) -> tuple[Float[ndarray, "k k"], Float[ndarray, "k k"]]:
    """Of the mean difference: what the texts alone would give it, and what is left to each text at each seed."""
    rows, seeds, texts = each.shape
    centred = each - each.mean(2, keepdims=True, dtype=float)
    by_text = centred.mean(1)
    rest = (centred - by_text[:, None]).reshape(rows, -1)
    return squared_distances(by_text) / (texts - 1) / texts, squared_distances(rest) / (seeds - 1) / (texts - 1) / (
        seeds * texts
    )


def squared_distances(rows: Float[ndarray, "k d"]) -> Float[ndarray, "k k"]:
    """Squared distances of the rows by their products, without a difference of each pair; rounding is nothing."""
    products = rows @ rows.T
    sizes = np.add.outer(np.diag(products), np.diag(products))
    distances = sizes - 2 * products
    return np.where(distances > NOTHING * sizes, distances, 0.0)


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
