"""Mean and standard deviation over seeds, and interquartile mean over data sets."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy import special

CONFIDENCE = 0.95
DRAWS = 2000  # resampled studies


class Summary(NamedTuple):
    """Number, mean and sample standard deviation of the finite values of a row."""

    seeds: int
    mean: float
    deviation: float  # nan for a single seed, whose spread is unknown


def summarise(values: Float[ndarray, " s"]) -> Summary:
    """Return the mean and the sample standard deviation of the values that are finite; 0.0 if all are equal."""
    finite = values[np.isfinite(values)]
    count = len(finite)
    if count < 2:
        return Summary(count, float(finite[0]) if count else math.nan, math.nan)
    deviation = float(finite.std(ddof=1)) if np.ptp(finite) else 0.0  # the mean of equal values may be rounded
    return Summary(count, float(finite.mean()), deviation)


def interquartile_mean(
    scores: Mapping[str, Float[ndarray, " s"]], seed: int, draws: int = DRAWS
) -> tuple[float, float, float]:
    """Return the mean of the middle half of all scores and the ends of its interval, by a bootstrap of the seeds.

    Bootstrap quantiles cover only 76 % at two seeds: n resampled values spread by √((n − 1)/n) too little, and few
    seeds tell the spread badly. So the interval is Student's, with the spread of the resampled means corrected for n.
    """
    generator = np.random.default_rng(seed)
    middle = float(middle_mean(np.concatenate(list(scores.values()))))
    freedom = sum(len(values) - 1 for values in scores.values()) / 2  # the middle half decides
    if min(map(len, scores.values())) < 2:
        return middle, np.nan, np.nan
    resampled = []
    for values in scores.values():
        drawn = values[generator.integers(len(values), size=(draws, len(values)))]
        resampled.append(values.mean() + (drawn - values.mean()) * np.sqrt(len(values) / (len(values) - 1)))
    half = special.stdtrit(freedom, (1 + CONFIDENCE) / 2) * middle_mean(np.hstack(resampled)).std()
    return middle, middle - float(half), middle + float(half)


def middle_mean(values: Float[ndarray, "*k n"]) -> Float[ndarray, "*k"]:
    """Return the mean of the middle half along the last axis."""
    count = values.shape[-1]
    low, high = count // 4, count - count // 4
    return np.partition(values, (low, high - 1), axis=-1)[..., low:high].mean(-1)
