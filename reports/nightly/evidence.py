"""The test of the nightly verdict: some nights against the window, paired by seed. Plain functions over arrays."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy import special

CONFIDENCE, POWER = 0.95, 0.8
DUST = 1e-12  # of a mean of floats, relative


@dataclass(frozen=True)
class Evidence:
    difference: float
    p: float  # two-sided
    standard_error: float
    freedom: float

    @property
    def half_width(self) -> float:
        return quantile((1 + CONFIDENCE) / 2, self.freedom) * self.standard_error

    def detectable(self, alpha: float) -> float:
        """The smallest true change that is seen four times of five where `alpha` is left after the correction."""
        return (quantile(1 - alpha / 2, self.freedom) + quantile(POWER, self.freedom)) * self.standard_error


def compare(window: Float[np.ndarray, "w s"], nights: Float[np.ndarray, "k s"], step: float = 0.0) -> Evidence:
    """The mean of nights against that of the window.

    Two spreads may make a difference of nothing. Between seeds: code that only sums in another order gives every seed
    other numbers, at random, and the same ones each night from then on. Between nights: a machine that is busy slows
    all seeds at once. A change has to stand out of both, so that the larger of the two p-values counts. A single night
    in the window says nothing of the second.

    Scores that count texts move in steps of one text. Seeds that all moved by as many have no spread, which is chance:
    theirs is at least that of a single seed with one text more right (`step`: the share that a text is of a score).
    Where nothing varies and no step is known, a difference cannot be tested: p and the error are NaN.
    """
    paired = nights.mean(0) - window.mean(0)
    difference = float(paired.mean())
    if abs(difference) <= DUST * float(np.abs(window).mean()):
        difference = 0.0
    seeds, count = paired.shape[0], len(window)
    least = step / seeds if difference else 0.0
    spreads = [(max(least, _deviation(paired) / seeds**0.5), seeds - 1.0)] if seeds > 1 else []
    if count > 1:
        spreads.append((_deviation(window.mean(1)) * (1 / count + 1 / len(nights)) ** 0.5, count - 1.0))
    assert spreads, "one seed in one night has no spread"
    if difference and not any(error for error, _ in spreads):
        return Evidence(difference, math.nan, math.nan, spreads[0][1])
    error, freedom = max(spreads, key=lambda spread: quantile((1 + CONFIDENCE) / 2, spread[1]) * spread[0])
    return Evidence(difference, max(p_value(difference, *spread) for spread in spreads), error, freedom)


def p_value(difference: float, error: float, freedom: float) -> float:
    """Of Student's t; one of two spreads may be none, which leaves the answer to the other."""
    if error == 0:
        return float(difference == 0)
    return float(2 * special.stdtr(freedom, -abs(difference) / error))


def quantile(share: float, freedom: float) -> float:
    return float(special.stdtrit(freedom, share))


def _deviation(values: Float[np.ndarray, " n"]) -> float:
    """0 where the values differ by rounding alone."""
    found = float(values.std(ddof=1))
    return found if found > DUST * float(np.abs(values).max()) else 0.0
