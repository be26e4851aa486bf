"""Several tests at once."""

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

ALPHA = 0.05


def holm(p: Float[ndarray, "..."]) -> Float[ndarray, "..."]:
    """Holm's adjusted p; nan, where there was no test, stays nan and is not counted."""
    tested = ~np.isnan(p)
    ordered = np.argsort(p[tested])
    steps = p[tested][ordered] * np.arange(len(ordered), 0, -1)
    adjusted, corrected = np.full(p.shape, np.nan), np.empty(len(ordered))
    corrected[ordered] = np.minimum(np.maximum.accumulate(steps), 1)
    adjusted[tested] = corrected
    return adjusted


def tied(means: Float[ndarray, " k"], adjusted: Float[ndarray, "k k"], higher: bool) -> Bool[ndarray, " k"]:
    """Which rows no better row beats; a row without a mean is not among them."""
    better = np.greater.outer(means, means) if higher else np.less.outer(means, means)
    return ~(better & (adjusted <= ALPHA)).any(0) & ~np.isnan(means)
