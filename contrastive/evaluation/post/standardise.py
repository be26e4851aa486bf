"""Standardising: each dimension with the mean 0 and the standard deviation 1 that it has on the training texts."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from contrastive.evaluation.post.variance import inverse


def standardise(train: Float[np.ndarray, "n d"]) -> Callable[[Float[np.ndarray, "m d"]], Float[np.ndarray, "m d"]]:
    """(x − mean) / std by dimension. A dimension that never varies in training becomes 0, whatever it is later."""
    exact = train.astype(np.float64)
    mean = exact.mean(0)
    scale = inverse(exact.std(0), exact)

    def apply(vectors: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m d"]:
        return ((vectors - mean) * scale).astype(np.float32)

    return apply
