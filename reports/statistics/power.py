"""The seeds or texts that an undecided comparison needs."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from reports.statistics.cutoffs import ADVICE_DRAWS, DRAWS, student
from reports.statistics.decide import ALPHA, Decided, Family, Variances, at_level, reaches_of

COUNTS = (*range(2, 13), 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160)  # seeds that may be advised
MOST_SEEDS, MOST_TIMES = 64, 100  # the most seeds, and the most times the texts, that are advised


@dataclass(frozen=True)
class Needed:
    """The seeds or texts that would decide a comparison if the difference and its variance stay as they are."""

    seeds: int | None  # None: no number of seeds decides it
    texts: int | None  # None: no number of texts decides it
    together: bool = False  # True if it takes both


def needed(comparison: Decided, family: Family, margin: float | None, texts: int) -> Needed:
    """Return the seeds of every row (of COUNTS) or the test texts at which the interval excludes 0 or is in the margin.

    A study that adds seeds and cannot decide with its most seeds is told what a larger one needs.
    """
    if family.most_seeds is None:
        return needed_up_to(MOST_SEEDS, comparison, family, margin, texts)
    for most in dict.fromkeys((family.most_seeds, max(family.most_seeds, MOST_SEEDS))):
        needs = needed_up_to(most, comparison, replace(family, most_seeds=most), margin, texts)
        if needs != Needed(None, None):
            break
    return needs


def needed_up_to(most: int, comparison: Decided, family: Family, margin: float | None, texts: int) -> Needed:
    """Return what `needed` returns, with at most `most` seeds."""
    size = abs(comparison.difference)
    enough = max(size, 0.0 if margin is None else margin - size)
    if not np.isfinite(comparison.half_width) or enough <= 0:
        return Needed(None, None)
    draws = DRAWS if family.most_seeds else ADVICE_DRAWS

    def half_at(seeds: int, times: float = 1.0) -> float:
        bounds = family.cutoffs(seeds, DRAWS if seeds == comparison.seeds else draws)
        scale = comparison.seeds / seeds
        parts = Variances(
            comparison.from_seeds * scale,
            comparison.freedom * (seeds - 1) / (comparison.seeds - 1),
            None if comparison.of_pair is None else comparison.of_pair * scale,
            comparison.from_texts / times,
        )
        return at_level(reaches_of(bounds, seeds, parts), ALPHA * family.share)

    def texts_at(seeds: int) -> int | None:
        times = smallest(lambda count: half_at(seeds, count / 10) < enough, 11, 10 * MOST_TIMES)
        return None if times is None else int(np.ceil(texts * times / 10 / 100) * 100)

    counts = [count for count in (*COUNTS, most) if comparison.seeds < count <= most]
    position = smallest(lambda number: half_at(counts[number]) < enough, 0, len(counts) - 1)
    seeds = None if position is None else counts[position]
    more_texts = texts_at(comparison.seeds) if texts else None
    if seeds is not None or more_texts is not None or not texts:
        return Needed(seeds, more_texts)
    doubled = [min(comparison.seeds * 2**power, most) for power in range(1, 6)]
    both = [(count, text_count) for count in dict.fromkeys(doubled) if (text_count := texts_at(count)) is not None]
    return Needed(*min(both, key=math.prod), True) if both else Needed(None, None)


def smallest(holds: Callable[[int], bool], low: int, high: int) -> int | None:
    """Return the smallest number from `low` to `high` at which the monotone condition holds; None if there is none."""
    if low > high or not holds(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def needed_unpaired(comparison: Decided, family: Family, margin: float | None) -> Needed:
    """Return the values of every row (of COUNTS) at which the interval would exclude 0 or be within the margin."""
    size = abs(comparison.difference)
    enough = max(size, 0.0 if margin is None else margin - size)
    for count in (count for count in COUNTS if comparison.seeds < count <= MOST_SEEDS):
        freedom = comparison.freedom * (count - 1) / max(1, comparison.seeds - 1)
        error = np.sqrt(comparison.from_seeds * comparison.seeds / count)
        if student(np.array(ALPHA * family.share / 2 / len(family.pairs)), freedom) * error < enough:
            return Needed(count, None)
    return Needed(None, None)
