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
ESTIMATES, TRUTHS = 400, 40  # steps of the distributions of an estimated variance, and of what the true one may be


def power(difference: float, spread: Spread, alpha: float) -> float:
    """How often the test finds a true difference; on average over the truth where the spread is an estimate itself."""
    truths = pooled_ratios(spread.freedom, spread.comparisons) if spread.comparisons else np.ones(1)
    seeds = spread.seeds / truths[:, None]
    estimated = seeds * ratios(spread.freedom, ESTIMATES)
    needed = reach(alpha, estimated, spread.freedom, np.array(spread.texts), spread.texts_freedom)
    error = np.sqrt(seeds + spread.texts)
    size = abs(difference)
    return float((special.ndtr((size - needed) / error) + special.ndtr((-size - needed) / error)).mean())


@cache
def ratios(freedom: float, steps: int) -> Float[ndarray, " steps"]:
    """What an estimated variance is to the true one: quantiles of their ratio, equally likely."""
    return special.gammaincinv(freedom / 2, (np.arange(steps) + 0.5) / steps) * 2 / freedom


@cache
def pooled_ratios(freedom: float, comparisons: int) -> Float[ndarray, " steps"]:
    """The same of the mean over comparisons that share a row: what they share varies as one, the rest averages out."""
    fine = 5 * TRUTHS
    shared = (comparisons + 1) / (2 * comparisons) * ratios(freedom, fine)
    own = np.zeros(1) if comparisons == 1 else (1 - 1 / comparisons) / 2 * ratios((comparisons - 1) * freedom, fine)
    both = np.sort(np.add.outer(shared, own).ravel())
    return np.median(both.reshape(TRUTHS, -1), axis=1)


def detectable(spread: Spread, alpha: float, wanted: float = POWER) -> float:
    """The smallest true difference that the test finds so often."""
    upper = spread.standard_error
    while power(upper, spread, alpha) < wanted:
        upper *= 2
    return float(optimize.brentq(lambda difference: power(difference, spread, alpha) - wanted, 0, upper, rtol=1e-10))


def pooled(differences: Sequence["Difference"]) -> Spread | None:
    """The spread of one comparison, as the mean of all of a section that share their baseline; None without any."""
    spreads = [d.spread for d in differences if d.spread is not None]
    if not spreads:
        return None
    seeds, texts = (float(np.mean([getattr(s, part) for s in spreads])) for part in ("seeds", "texts"))
    freedom, texts_freedom = (min(getattr(s, part) for s in spreads) for part in ("freedom", "texts_freedom"))
    return Spread(seeds, freedom, texts, texts_freedom, len(spreads))


def smallest_p(seeds: int) -> float:
    """What so many seeds can show at most without taking their spread for normal: all the signs alike, either way."""
    return float(2.0 ** (1 - seeds))
