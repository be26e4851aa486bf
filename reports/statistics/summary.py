"""Mean and half-width over seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import special

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Summary:
    mean: float
    half_width: float | None  # None for a single seed: nothing is known of its spread
    seeds: int


def summarise(values: Sequence[float]) -> Summary | None:
    """Mean ± half-width of Student's 95 % interval over seeds; None without any value."""
    finite = np.array([value for value in values if np.isfinite(value)])
    if len(finite) == 0:
        return None
    if len(finite) == 1:
        return Summary(float(finite[0]), None, 1)
    error = finite.std(ddof=1) / np.sqrt(len(finite))
    return Summary(float(finite.mean()), float(interval_quantile(len(finite) - 1) * error), len(finite))


@cache
def interval_quantile(freedom: float) -> float:
    """Student's, at which the interval ends; the same for every row of a table."""
    return float(special.stdtrit(freedom, (1 + CONFIDENCE) / 2))
