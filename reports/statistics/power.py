"""What a design finds, and how much more of it would decide what it leaves open."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy import optimize, special

from reports.statistics.cutoffs import RATIOS, Cutoffs, Pair
from reports.statistics.decide import ALPHA, Decided, at_level, cutoffs_for

POWER = 0.8
MOST_SEEDS, MOST_TIMES = 64, 100  # beyond so many seeds, or so many times the texts, nothing is advised


@dataclass(frozen=True)
class Needed:
    """What would decide a comparison if the difference and its variance stay as they are; None: nothing would."""

    seeds: int | None
    texts: int | None
    together: bool = False  # neither decides it without the other


def detectable(
    decided: Sequence[Decided], pairs: Sequence[Pair], rows: int, share: float = 1.0, most_seeds: int | None = None
) -> float | None:
    """The smallest true difference that is found four times of five, by the mean variance of the comparisons.
    `most_seeds`: of a study that stops by itself; its look, whose cut-off is up to 2.3 times that of fixed seeds."""
    tested = [comparison for comparison in decided if np.isfinite(comparison.half_width)]
    if not tested:
        return None
    alike = [comparison for comparison in tested if not comparison.unequal]
    from_seeds, from_texts = (
        float(np.mean([getattr(comparison, part) for comparison in alike or tested])) for part in PARTS
    )
    seeds = min(comparison.seeds for comparison in tested)
    bounds = cutoffs_for(rows, tuple(pairs), seeds, most_seeds)
    if from_seeds + from_texts <= 0:
        return 0.0
    freedom = None if alike else seeds - 1
    ratios = bounds.ratios if alike else special.chdtri(seeds - 1, QUANTILES) / (seeds - 1)
    true = from_seeds / ratios.mean()  # the estimate is floored, and too large on average
    reaches = np.array([reach(bounds, true * ratio, from_texts, share, freedom) for ratio in ratios])
    error = np.sqrt(true + from_texts)

    def lacking(difference: float) -> float:
        return POWER - float(special.ndtr((difference - reaches) / error).mean())

    return float(optimize.brentq(lacking, 0.0, reaches.max() + 5 * error, rtol=1e-10))


PARTS = ("from_seeds", "from_texts")
QUANTILES = (np.arange(RATIOS) + 0.5) / RATIOS


def reach(bounds: Cutoffs, from_seeds: float, from_texts: float, share: float, freedom: float | None = None) -> float:
    """What a difference must reach to be called. `freedom`: of a pair that is tested by its own variance."""
    of_seeds = bounds.seeds if freedom is None else bounds.alone(freedom)
    reaches: Float[ndarray, " levels"] = np.sqrt(of_seeds**2 * from_seeds + bounds.texts**2 * from_texts)
    return at_level(reaches, ALPHA * share)


def needed(
    comparison: Decided,
    pairs: Sequence[Pair],
    rows: int,
    margin: float | None,
    texts: int,
    share: float,
    most_seeds: int | None = None,
) -> Needed:
    """How many seeds for every row, or how many test texts, until the interval leaves 0 or lies within the margin.
    `most_seeds`: of a study that stops by itself, which has that many at most."""
    size = abs(comparison.difference)
    enough = max(size, 0.0 if margin is None else margin - size)
    if not np.isfinite(comparison.half_width) or enough <= 0:
        return Needed(None, None)

    def half_at(seeds: int, times: float) -> float:
        bounds = cutoffs_for(rows, tuple(pairs), seeds, most_seeds)
        freedom = seeds - 1 if comparison.unequal else None
        return reach(
            bounds, comparison.from_seeds * comparison.seeds / seeds, comparison.from_texts / times, share, freedom
        )

    def texts_at(seeds: int) -> int | None:
        times = smallest(lambda count: half_at(seeds, count / 10) < enough, 11, 10 * MOST_TIMES)
        return None if times is None else int(np.ceil(texts * times / 10 / 100) * 100)

    most = most_seeds or MOST_SEEDS
    seeds = smallest(lambda count: half_at(count, 1.0) < enough, comparison.seeds + 1, most)
    more_texts = texts_at(comparison.seeds) if texts else None
    if seeds is not None or more_texts is not None or not texts:
        return Needed(seeds, more_texts)
    doubled = [min(comparison.seeds * 2**power, most) for power in range(1, 6)]
    together = [(count, at) for count in dict.fromkeys(doubled) if (at := texts_at(count)) is not None]
    return Needed(*min(together, key=math.prod), True) if together else Needed(None, None)


def smallest(does: Callable[[int], bool], low: int, high: int) -> int | None:
    """The smallest number that does, of which all larger ones do; None where none up to `high` does."""
    if low > high or not does(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if does(middle) else (middle + 1, high)
    return low
