"""What a design could have found."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy import optimize, special, stats

if TYPE_CHECKING:
    from reports.statistics.paired import Difference

POWER = 0.8
ENDLESS = 1e9  # degrees of freedom that cannot be told from infinitely many


def power(difference: float, standard_error: float, freedom: float, alpha: float) -> float:
    """How often the two-sided t test finds a true difference."""
    freedom = min(freedom, ENDLESS)
    critical = stats.t.isf(alpha / 2, freedom)
    shift = abs(difference) / standard_error
    return float(
        1 - special.ncfdtr(1, freedom, shift**2, critical**2)
    )  # the square of noncentral t, where nct gives nan


def detectable(standard_error: float, freedom: float, alpha: float, wanted: float = POWER) -> float:
    """The smallest true difference that the test finds so often."""
    upper = standard_error
    while power(upper, standard_error, freedom, alpha) < wanted:
        upper *= 2
    return float(optimize.brentq(lambda d: power(d, standard_error, freedom, alpha) - wanted, 0, upper, rtol=1e-10))


def pooled(differences: Sequence["Difference"]) -> tuple[float, float]:
    """Standard error and degrees of freedom of one test of a section, of all its comparisons that could be tested."""
    known = [d for d in differences if d.standard_error is not None and d.freedom is not None]
    if not known:
        return float("nan"), float("nan")
    variances = np.array([(d.standard_error or 0.0) ** 2 for d in known])
    uncertainty = np.array([v**2 / (d.freedom or 1.0) for v, d in zip(variances, known, strict=True)])
    return float(np.sqrt(variances.mean())), float((variances**2).mean() / uncertainty.mean())


def smallest_p(seeds: int) -> float:
    """What so many seeds can show at most without taking their spread for normal: all the signs alike, either way."""
    return float(2.0 ** (1 - seeds))
