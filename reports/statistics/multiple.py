"""Several tests at once."""

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

ALPHA = 0.05


def holm(p: Float[ndarray, "..."]) -> Float[ndarray, "..."]:
    """Holm's adjusted p; nan, where there was no test, stays nan and is not counted."""
    from statsmodels.stats.multitest import multipletests  # it takes a second to import

    tested = ~np.isnan(p)
    adjusted = np.full(p.shape, np.nan)
    if tested.any():
        adjusted[tested] = multipletests(p[tested], method="holm")[1]
    return adjusted


def tied(means: Float[ndarray, " k"], adjusted: Float[ndarray, "k k"], higher: bool) -> Bool[ndarray, " k"]:
    """Which rows no better row beats; a row without a mean is not among them."""
    better = np.greater.outer(means, means) if higher else np.less.outer(means, means)
    return ~(better & (adjusted <= ALPHA)).any(0) & ~np.isnan(means)
