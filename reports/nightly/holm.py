"""Several metrics of one night at once: Holm's correction."""

import numpy as np
from jaxtyping import Float
from numpy import ndarray


def holm(p: Float[ndarray, " m"]) -> Float[ndarray, " m"]:
    """Holm's adjusted p; nan, where there was no test, stays nan and is not counted."""
    tested = ~np.isnan(p)
    ordered = np.argsort(p[tested])
    steps = p[tested][ordered] * np.arange(len(ordered), 0, -1)
    adjusted, corrected = np.full(p.shape, np.nan), np.empty(len(ordered))
    corrected[ordered] = np.minimum(np.maximum.accumulate(steps), 1)
    adjusted[tested] = corrected
    return adjusted
