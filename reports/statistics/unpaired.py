"""Compare rows whose values are not paired by seed: Welch's t, by Bonferroni over all comparisons of a family."""

from collections.abc import Sequence

import numpy as np
from scipy import special

from reports.statistics.cutoffs import LEVELS, student
from reports.statistics.decide import ALPHA, Decided
from reports.statistics.power import COUNTS, MOST_SEEDS, POWER, Needed

Sample = tuple[float, float, int]  # mean, standard deviation, and number of values
MOVES = 1.0  # variance that a seed is expected to give to all rows, for a variance of 1 of each row at a seed


def worth_pairing(shared: int, counts: tuple[int, int], freedom: float, tests: int) -> bool:
    """Return whether two rows are compared by the seeds that both have (paired), or by all runs (Welch).

    The choice is by numbers of runs alone, so that no value can influence it: the one whose interval is expected to be
    narrower. `freedom`: of the pooled variance. Rows with the same seeds are always paired.
    """
    if shared == max(counts):
        return True
    if shared < 2:
        return False
    first, second = (1 / count for count in counts)
    welch = (first + second) ** 2 / (first**2 / (counts[0] - 1) + second**2 / (counts[1] - 1))
    tail = np.array(ALPHA / 2 / tests)
    by_seed = student(tail, max(freedom, 1.0)) * (2 / shared) ** 0.5
    return bool(by_seed <= student(tail, welch) * ((1 + MOVES) * (first + second)) ** 0.5)


def compare_samples(ours: Sample, theirs: Sample, tests: int, share: float) -> Decided:
    """Return Welch's test of two rows; without a spread, p and half_width are nan."""
    difference, seeds = ours[0] - theirs[0], min(ours[2], theirs[2])
    parts = [deviation**2 / count for _, deviation, count in (ours, theirs)]
    variance = sum(parts)
    if seeds < 2 or not variance > 0:
        return Decided(difference, np.nan, np.nan, seeds, variance, 0.0, 0)
    freedom = variance**2 / sum(
        part**2 / (count - 1) for part, (_, _, count) in zip(parts, (ours, theirs), strict=True)
    )
    reaches = student(LEVELS / 2 / tests, freedom) * np.sqrt(variance)
    reaches[0] = 0.0
    half = float(student(np.array(ALPHA * share / 2 / tests), freedom)) * variance**0.5
    p = min(1.0, 2 * tests / share * float(special.stdtr(freedom, -abs(difference) / variance**0.5)))
    return Decided(difference, half, p, seeds, variance, 0.0, freedom, reaches=reaches)


def detectable_unpaired(decided: Sequence[Decided], share: float = 1.0) -> float | None:
    """Return the true difference that is found with probability POWER; None without a test."""
    tested = [comparison for comparison in decided if np.isfinite(comparison.half_width)]
    if not tested:
        return None
    error = np.sqrt(np.mean([comparison.from_seeds for comparison in tested]))
    freedom = min(comparison.freedom for comparison in tested)
    reach = student(np.array(ALPHA * share / 2 / len(decided)), freedom)
    return float((reach + special.ndtri(POWER)) * error)


def needed_unpaired(comparison: Decided, tests: int, margin: float | None, share: float) -> Needed:
    """Return the values of every row (of COUNTS) at which the interval would exclude 0 or be within the margin."""
    size = abs(comparison.difference)
    enough = max(size, 0.0 if margin is None else margin - size)
    for count in (count for count in COUNTS if comparison.seeds < count <= MOST_SEEDS):
        freedom = comparison.freedom * (count - 1) / (comparison.seeds - 1)
        error = np.sqrt(comparison.from_seeds * comparison.seeds / count)
        if student(np.array(ALPHA * share / 2 / tests), freedom) * error < enough:
            return Needed(count, None)
    return Needed(None, None)
