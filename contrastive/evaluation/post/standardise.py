"""Standardising: each dimension with the mean 0 and the standard deviation 1 that it has on the training texts."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float


def standardise(train: Float[np.ndarray, "n d"]) -> Callable[[Float[np.ndarray, "m d"]], Float[np.ndarray, "m d"]]:
    """(x − mean) / std by dimension. A dimension that never varies in training becomes 0, whatever it is later."""
    exact = train.astype(np.float64)
    mean = exact.mean(0)
    scale = inverse(exact.std(0), exact)

    def apply(vectors: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m d"]:
        return ((vectors - mean) * scale).astype(np.float32)

    return apply


COLLAPSED = 1e-6  # spread over the size of the vectors: what float32 rounds to nothing


def inverse(spread: Float[np.ndarray, " d"], vectors: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " d"]:
    """1 / standard deviation; 0 for a direction in which vectors of this size differ by no more than their rounding.

    Divided by its own size, that rounding would count as much as any direction that means something.
    """
    varies = spread > COLLAPSED * np.abs(vectors).max()
    return np.divide(1.0, spread, out=np.zeros_like(spread), where=varies)
