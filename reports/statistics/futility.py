"""Futility: the chance that further seeds decide a comparison of a study that adds seeds."""

from collections.abc import Sequence

import numpy as np

from reports.statistics.cutoffs import Pair, looks_up_to
from reports.statistics.decide import ALPHA, Decided, at_level, cutoffs_for

DRAWS = 4000
FUTILE = 0.1  # a comparison with a smaller chance gets no more seeds


def chance_of_deciding(
    comparison: Decided, pairs: Sequence[Pair], rows: int, margin: float | None, share: float, most_seeds: int
) -> float:
    """Return the probability that a later look decides a comparison, over what is not known of its difference and its
    spread. All looks have the same texts, so more seeds do not reduce the texts' part.

    It binds no look, so it changes no error rate: a row that gets no more seeds is undecided.
    """
    seeds, alone = comparison.seeds, comparison.own is not None  # tested by its own variance, for rows vary unequally
    part, freedom = (comparison.from_seeds, comparison.freedom) if not alone else (comparison.own or 0.0, seeds - 1)
    if not np.isfinite(comparison.half_width):
        return 1.0
    generator = np.random.default_rng(20250625)
    spread = part * seeds  # variance of the difference at one seed
    true = spread * freedom / generator.chisquare(freedom, DRAWS)
    effect = comparison.difference + np.sqrt(true / seeds) * generator.standard_normal(DRAWS)
    total, reached = np.full(DRAWS, comparison.difference * seeds), np.zeros(DRAWS, bool)
    squares, before = np.full(DRAWS, spread * freedom), freedom
    for look in looks_up_to(most_seeds):
        if look <= seeds:
            continue
        added = look - round(float(seeds))
        total = total + added * effect + np.sqrt(added * true) * generator.standard_normal(DRAWS)
        seeds, after = look, freedom * (look - 1) / (comparison.seeds - 1)
        squares, before = squares + true * generator.chisquare(after - before, DRAWS), after
        bounds = cutoffs_for(rows, tuple(pairs), look, most_seeds)
        by_seeds = at_level(bounds.alone(after) if alone else bounds.at_freedom(after), ALPHA * share)
        by_texts = at_level(bounds.texts, ALPHA * share)
        reach = np.sqrt(by_seeds**2 * squares / after / look + by_texts**2 * comparison.from_texts)
        size = np.abs(total / look)
        reached |= (size > reach) | (size + reach < (margin or 0.0))
    return float(reached.mean())
