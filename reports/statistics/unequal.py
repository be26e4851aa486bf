"""Rows that vary from seed to seed otherwise than the rest.

A row that is suspected has wider intervals, and never narrower ones. Only one that stands out far more is left out of
the pool: what the others leave is then small by selection, and two of three studies with a false suspicion erred.
"""

from functools import lru_cache

import numpy as np
from jaxtyping import Float
from numpy import ndarray

DRAWS = 50_000
SUSPECT = 0.02  # of studies whose rows vary alike, the share in which one is suspected all the same
LEAVE_OUT = 0.001  # … and the share in which one is left out of the pool


def unequal_rows(values: Float[ndarray, "k s"], chance: float = SUSPECT) -> list[int]:
    """Their numbers, the most unequal first. Of two rows nothing can tell which of them varies more."""
    complete = values[:, np.isfinite(values).all(0)]
    left, unequal = list(range(len(values))), list[int]()
    while len(left) > 2 and complete.shape[1] > 1:
        shares = shares_of_variance(complete[left])
        if shares.max() <= largest_share(len(left), complete.shape[1], chance):
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
def largest_share(rows: int, seeds: int, chance: float) -> float:
    """What the largest share exceeds with this probability, where all rows vary alike."""
    count, block = (min(DRAWS, numbers // (rows * seeds) or 1) for numbers in (20_000_000, 1_000_000))
    generator, largest = np.random.default_rng(20250625), list[ndarray]()
    for begin in range(0, count, block):
        drawn = generator.standard_normal((min(block, count - begin), rows, seeds))
        largest.append(shares_of_variance(drawn).max(-1))
    return float(np.quantile(np.concatenate(largest), 1 - chance))
