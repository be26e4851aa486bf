"""Futility: the chance that further seeds decide a comparison of a study that adds seeds."""

import math

import numpy as np

from reports.statistics.cutoffs import looks_up_to
from reports.statistics.decide import ALPHA, Decided, Family, at_level

DRAWS = 4000
FUTILE = 0.1  # a comparison with a smaller chance gets no more seeds


def chance_of_deciding(comparison: Decided, family: Family, margin: float | None) -> float:
    """Return the probability that a later look decides a comparison, over what is not known of its difference and its
    spread; NaN if the study adds no seeds. All looks have the same texts, so more seeds do not reduce the texts' part.

    It binds no look, so it changes no error rate: a row that gets no more seeds is undecided.
    """
    if family.most_seeds is None:
        return math.nan
    seeds, alone = comparison.seeds, comparison.of_pair is not None  # tested by its own variance: rows vary unequally
    part, freedom = comparison.from_seeds, comparison.freedom
    if comparison.of_pair is not None:
        part, freedom = comparison.of_pair, seeds - 1
    if not np.isfinite(comparison.half_width):
        return 1.0
    generator = np.random.default_rng(20250625)
    spread = part * seeds  # variance of the difference at one seed
    true = spread * freedom / generator.chisquare(freedom, DRAWS)
    effect = comparison.difference + np.sqrt(true / seeds) * generator.standard_normal(DRAWS)
    total, reached = np.full(DRAWS, comparison.difference * seeds), np.zeros(DRAWS, bool)
    squares, before = np.full(DRAWS, spread * freedom), freedom
    for look in looks_up_to(family.most_seeds):
        if look <= seeds:
            continue
        added = look - round(float(seeds))
        total = total + added * effect + np.sqrt(added * true) * generator.standard_normal(DRAWS)
        seeds, after = look, freedom * (look - 1) / (comparison.seeds - 1)
        squares, before = squares + true * generator.chisquare(after - before, DRAWS), after
        bounds = family.cutoffs(look)
        by_seeds = at_level(bounds.alone(after) if alone else bounds.at_freedom(after), ALPHA * family.share)
        by_texts = at_level(bounds.texts, ALPHA * family.share)
        reach = np.sqrt(by_seeds**2 * squares / after / look + by_texts**2 * comparison.from_texts)
        size = np.abs(total / look)
        reached |= (size > reach) | (size + reach < (margin or 0.0))
    return float(reached.mean())
