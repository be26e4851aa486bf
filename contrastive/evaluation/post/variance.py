"""Which directions vary at all."""

import numpy as np
from jaxtyping import Float

COLLAPSED = 1e-6  # spread over the size of the vectors: what float32 rounds to nothing


def inverse(spread: Float[np.ndarray, " d"], vectors: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " d"]:
    """1 / standard deviation; 0 for a direction in which vectors of this size differ by no more than their rounding.

    Divided by its own size, that rounding would count as much as any direction that means something.
    """
    varies = spread > COLLAPSED * np.abs(vectors).max()
    return np.divide(1.0, spread, out=np.zeros_like(spread), where=varies)
