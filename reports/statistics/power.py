"""What a design could have found."""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy import optimize, special

from reports.statistics.spread import Spread, reach

if TYPE_CHECKING:
    from reports.statistics.paired import Difference

POWER = 0.8
STEPS = 4000  # of the distribution of a variance estimated from seeds


def power(difference: float, spread: Spread, alpha: float) -> float:
    """How often the test finds a true difference: the noncentral t, and with texts the test of spread.py."""
    estimated = spread.seeds * ratios(spread.freedom)
    needed = reach(alpha, estimated, spread.freedom, np.array(spread.texts), spread.texts_freedom)
    above, below = (
        (abs(difference) - needed) / spread.standard_error,
        (-abs(difference) - needed) / spread.standard_error,
    )
    return float((special.ndtr(above) + special.ndtr(below)).mean())


@cache
def ratios(freedom: float) -> Float[ndarray, " steps"]:
    """What an estimated variance is to the true one: quantiles of their ratio, equally likely."""
    return special.gammaincinv(freedom / 2, (np.arange(STEPS) + 0.5) / STEPS) * 2 / freedom


def detectable(spread: Spread, alpha: float, wanted: float = POWER) -> float:
    """The smallest true difference that the test finds so often."""
    upper = spread.standard_error
    while power(upper, spread, alpha) < wanted:
        upper *= 2
    return float(optimize.brentq(lambda difference: power(difference, spread, alpha) - wanted, 0, upper, rtol=1e-10))


def pooled(differences: Sequence["Difference"]) -> Spread | None:
    """The spread of one comparison of a section, as the mean of all of them that could be tested."""
    known = [d.spread for d in differences if d.spread is not None]
    if not known:
        return None
    seeds, texts = (float(np.mean([getattr(s, part) for s in known])) for part in ("seeds", "texts"))
    return Spread(seeds, known[0].freedom, texts, known[0].texts_freedom)


def smallest_p(seeds: int) -> float:
    """What so many seeds can show at most without taking their spread for normal: all the signs alike, either way."""
    return float(2.0 ** (1 - seeds))
