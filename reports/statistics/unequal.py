"""Rows that vary from seed to seed otherwise than the rest: they make no pool with it."""

from functools import lru_cache

import numpy as np
from jaxtyping import Float
from numpy import ndarray

DRAWS = 20_000
SUSPECT = 0.02  # of studies whose rows vary alike, the share in which one is suspected all the same


def unequal_rows(values: Float[ndarray, "k s"]) -> list[int]:
    """Their numbers, the most unequal first. Of two rows nothing can tell which of them varies more;
    of rows with fewer seeds than the rest, neither."""
    left, unequal = np.flatnonzero(np.isfinite(values).all(1)).tolist(), list[int]()
    while len(left) > 2 and values.shape[1] > 1:
        shares = shares_of_variance(values[left])
        if shares.max() <= largest_share(len(left), values.shape[1]):
            break
        unequal.append(left.pop(int(shares.argmax())))
    return unequal


def shares_of_variance(values: Float[ndarray, "... k s"]) -> Float[ndarray, "... k"]:
    """How much of the residual of rows × seeds each row makes; equal shares where there is none."""
    rest = values - values.mean(-1, keepdims=True)
    sizes = np.square(rest - np.median(rest, -2, keepdims=True)).sum(-1)
    total = sizes.sum(-1, keepdims=True)
    return np.where(total > 0, sizes / np.where(total > 0, total, 1.0), 1 / values.shape[-2])


@lru_cache(maxsize=256)
def largest_share(rows: int, seeds: int) -> float:
    """What the largest share exceeds by chance, with the probability SUSPECT, where all rows vary alike."""
    count = min(DRAWS, 20_000_000 // (rows * seeds))
    drawn = np.random.default_rng(20250625).standard_normal((count, rows, seeds))
    return float(np.quantile(shares_of_variance(drawn).max(-1), 1 - SUSPECT))
