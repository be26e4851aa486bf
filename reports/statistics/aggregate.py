"""Scores of several data sets as one number, and the best of several tries."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy import stats

from reports.statistics.paired import DRAWS, tails


def interquartile_mean(
    scores: Mapping[str, Float[ndarray, " s"]], seed: int, draws: int = DRAWS
) -> tuple[float, float, float]:
    """The mean of the middle half over data sets and seeds, with an interval over each data set's seeds drawn again."""
    generator = np.random.default_rng(seed)
    again = [values[generator.integers(len(values), size=(draws, len(values)))] for values in scores.values()]
    low, high = np.quantile(stats.trim_mean(np.hstack(again), 0.25, axis=1), tails())
    return float(stats.trim_mean(np.concatenate(list(scores.values())), 0.25)), float(low), float(high)


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
