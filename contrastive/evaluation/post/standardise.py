"""Standardise embeddings: mean 0 and standard deviation 1 per dimension, estimated on the training texts."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float


def standardise(train: Float[np.ndarray, "n d"]) -> Callable[[Float[np.ndarray, "m d"]], Float[np.ndarray, "m d"]]:
    """Return a function for (x − mean) / std per dimension. Dimensions that are constant in training become 0."""
    exact = train.astype(np.float64)
    mean = exact.mean(0)
    scale = inverse(exact.std(0), exact)

    def apply(vectors: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m d"]:
        return ((vectors - mean) * scale).astype(np.float32)

    return apply


COLLAPSED = 1e-6  # standard deviation relative to the largest value, below which float32 holds rounding only


def inverse(spread: Float[np.ndarray, " d"], vectors: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " d"]:
    """Return 1 / standard deviation; 0 for directions that vary by no more than float32 rounding.

    Scaled to variance 1, rounding would weigh as much as the directions that carry information.
    """
    varies = spread > COLLAPSED * np.abs(vectors).max()
    return np.divide(1.0, spread, out=np.zeros_like(spread), where=varies)
