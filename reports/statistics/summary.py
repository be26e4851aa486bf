"""Means over seeds and over data sets with their intervals, and the best of several tries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy import special

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Summary:
    mean: float
    half_width: float | None  # None for a single seed: nothing is known of its spread
    seeds: int


def summarise(values: Sequence[float]) -> Summary | None:
    """Mean ± half-width of Student's 95 % interval over seeds; None without any value."""
    finite = np.array([value for value in values if np.isfinite(value)])
    if len(finite) == 0:
        return None
    if len(finite) == 1:
        return Summary(float(finite[0]), None, 1)
    error = finite.std(ddof=1) / np.sqrt(len(finite))
    return Summary(float(finite.mean()), float(interval_quantile(len(finite) - 1) * error), len(finite))


@cache
def interval_quantile(freedom: float) -> float:
    """Student's, at which the interval ends; the same for every row of a table."""
    return float(special.stdtrit(freedom, (1 + CONFIDENCE) / 2))


DRAWS = 2000


def interquartile_mean(
    scores: Mapping[str, Float[ndarray, " s"]], seed: int, draws: int = DRAWS
) -> tuple[float, float, float]:
    """The mean of the middle half over data sets and seeds, with an interval over each data set's seeds drawn again.

    Quantiles of what is drawn cover 76 % at two seeds: drawn again, n values spread by √((n − 1)/n) too little, and how
    much they spread is known by few. So the interval is Student's, with the spread of the draws made good for that.
    """
    generator = np.random.default_rng(seed)
    middle = float(middle_mean(np.concatenate(list(scores.values()))))
    freedom = sum(len(values) - 1 for values in scores.values()) / 2  # the middle half decides
    if min(map(len, scores.values())) < 2:
        return middle, np.nan, np.nan
    again = []
    for values in scores.values():
        drawn = values[generator.integers(len(values), size=(draws, len(values)))]
        again.append(values.mean() + (drawn - values.mean()) * np.sqrt(len(values) / (len(values) - 1)))
    half = interval_quantile(freedom) * middle_mean(np.hstack(again)).std()
    return middle, middle - float(half), middle + float(half)


def middle_mean(values: Float[ndarray, "*k n"]) -> Float[ndarray, "*k"]:
    """The mean of the middle half, along the last axis."""
    count = values.shape[-1]
    low, high = count // 4, count - count // 4
    return np.partition(values, (low, high - 1), axis=-1)[..., low:high].mean(-1)


def expected_best(scores: Float[ndarray, " n"]) -> Float[ndarray, "2 n"]:
    """Expected greatest score of 1 … n configurations drawn with replacement, and its standard deviation below."""
    ordered = np.sort(scores)
    tries = np.arange(1, len(ordered) + 1)
    reached = (np.arange(len(ordered) + 1) / len(ordered)) ** tries[
        :, None
    ]  # that the greatest is among the lowest so many
    chance = np.diff(reached, axis=1)
    mean = chance @ ordered
    return np.stack([mean, np.sqrt(np.maximum(chance @ ordered**2 - mean**2, 0))])
