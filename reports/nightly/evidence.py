"""Timings of some nights against those of the window."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy import special

from reports.statistics import CONFIDENCE, POWER
from reports.statistics.paired import ROUNDING


@dataclass(frozen=True)
class Spread:
    """The variance of a difference, and the degrees of freedom that it is estimated with."""

    variance: float
    freedom: int

    @property
    def standard_error(self) -> float:
        return math.sqrt(self.variance)

    def p(self, size: float) -> float:
        """Student's, two-sided; nan where nothing varies."""
        return 2 * float(special.stdtr(self.freedom, -size / self.standard_error)) if self.variance > 0 else math.nan


def quantile(alpha: float, freedom: int) -> float:
    """Student's, two-sided."""
    return -float(special.stdtrit(freedom, alpha / 2))


@dataclass(frozen=True)
class Evidence:
    difference: float
    p: float  # two-sided
    spread: Spread  # the wider one of two

    @property
    def half_width(self) -> float:
        return quantile(1 - CONFIDENCE, self.spread.freedom) * self.spread.standard_error

    def detectable(self, alpha: float) -> float:
        """The smallest true change that is seen four times of five where `alpha` is left after the correction."""
        both = quantile(alpha, self.spread.freedom) + quantile(2 * (1 - POWER), self.spread.freedom)
        return both * self.spread.standard_error


def compare_nights(window: Float[np.ndarray, "w s"], nights: Float[np.ndarray, "k s"]) -> Evidence:
    """The mean of nights against that of the window.

    Two spreads may make a difference of nothing: between the cells of a night, and between nights, since a machine that
    is busy slows all cells at once. A change has to stand out of both, so that the larger of the two p-values counts. A
    single night in the window says nothing of the second. Where nothing varies a difference cannot be tested: p and the
    error are NaN.
    """
    paired, (count, cells) = nights.mean(0) - window.mean(0), window.shape
    assert count > 1 or cells > 1, "one cell in one night has no spread"
    difference = float(paired.mean())
    if abs(difference) <= ROUNDING * float(np.abs(window).mean()):
        difference = 0.0
    spreads = [Spread(variance(paired) / cells, cells - 1)] if cells > 1 else []
    if count > 1:
        spreads.append(Spread(variance(window.mean(1)) * (1 / count + 1 / len(nights)), count - 1))
    varying = [spread for spread in spreads if spread.variance] or [Spread(math.nan if difference else 0.0, 1)]
    p = max(spread.p(abs(difference)) for spread in varying)
    candidates = [Evidence(difference, p if difference else 1.0, spread) for spread in varying]
    return max(candidates, key=lambda evidence: evidence.half_width)


def variance(values: Float[np.ndarray, " n"]) -> float:
    """0 where the values differ by rounding alone."""
    computed = float(values.var(ddof=1))
    return computed if computed > (ROUNDING * float(np.abs(values).max())) ** 2 else 0.0
