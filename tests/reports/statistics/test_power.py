"""What is said to be needed, against the intervals that it gives."""

import math

import pytest
from scipy import stats

from reports.statistics.cutoffs import Design, cutoffs
from reports.statistics.decide import ALPHA, Decided, Family, at_level
from reports.statistics.power import MOST_SEEDS, needed
from tests.reports.statistics.by_hand import star


def line(difference: float, from_seeds: float, from_texts: float, seeds: int, unequal: bool = False) -> Decided:
    """A comparison that nobody has decided."""
    own = from_seeds if unequal else None
    return Decided(difference, 9.0, 1.0, seeds, from_seeds, from_texts, math.inf, unequal, own)


def reach(rows: int, seeds: int, from_seeds: float, from_texts: float, share: float = 1.0) -> float:
    bounds = cutoffs(Design(rows, star(rows), (seeds,)))[0]
    squares = [at_level(part, ALPHA * share) ** 2 for part in (bounds.seeds, bounds.texts)]
    return math.sqrt(squares[0] * from_seeds + squares[1] * from_texts)


@pytest.mark.parametrize(("difference", "margin"), [(1.0, None), (0.8, 0.1), (0.1, 1.2), (0.0, 1.0)])
@pytest.mark.parametrize("from_texts", [0.0, 0.01])
def test_with_the_seeds_that_are_needed_the_interval_is_short_enough(difference, margin, from_texts):
    seeds = needed(line(difference, 0.3, from_texts, 3), Family(3, star(3)), margin, 0).seeds
    short = [
        reach(3, seeds, 0.3 * 3 / seeds, from_texts) * 0.99,
        reach(3, seeds - 1, 0.3 * 3 / (seeds - 1), from_texts) * 1.01,
    ]
    decides = [half < difference or (margin is not None and difference + half < margin) for half in short]
    assert decides == [True, False]  # within 1 %, as accurate as the fewer draws for advice are


def test_with_the_texts_that_are_needed_the_interval_is_short_enough():
    texts = needed(line(0.02, 1e-5, 2e-4, 3), Family(3, star(3)), None, 600).texts
    halves = [reach(3, 3, 1e-5, 2e-4 * 600 / count) for count in (600, texts - 200, texts)]
    assert texts % 100 == 0 and [half < 0.02 for half in halves] == [False, False, True]
    # more do not help where seeds are what lacks
    needs = needed(line(0.02, 1e-3, 1e-6, 3), Family(3, star(3)), None, 600)
    assert needs.texts is None and needs.seeds > 3
    assert needed(line(0.02, 1e-5, 2e-4, 3), Family(3, star(3)), None, 0).texts is None


def test_where_neither_seeds_nor_texts_suffice_both_together_do():
    few = line(0.02, 3e-3, 1e-3, 2)
    both = needed(few, Family(3, star(3)), None, 1000)
    assert both.together and 2 < both.seeds <= MOST_SEEDS and both.texts > 1000
    assert reach(3, both.seeds, 3e-3 * 2 / both.seeds, 1e-3 * 1000 / both.texts) < 0.02
    assert reach(3, MOST_SEEDS, 3e-3 * 2 / MOST_SEEDS, 1e-3) > 0.02 < reach(3, 2, 3e-3, 0.0)
    assert needed(few, Family(3, star(3)), None, 0) == needed(line(1e-9, 3e-3, 1e-3, 2), Family(3, star(3)), None, 1000)


def test_a_pair_of_its_own_variance_needs_what_the_larger_of_both_and_students_t_say():
    """By its own variance alone 300 texts were advised, then 400, which did not decide; by the pool 5 seeds were."""
    alone = Decided(0.03, 1.0, 1.0, 4, 1e-2, 1e-4, 4.0, True, 1e-6)
    assert needed(alone, Family(3, star(3)), None, 200).texts is None
    seeds = needed(line(2.0, 0.5, 0.0, 4, unequal=True), Family(4, star(4)), None, 0).seeds
    halves = [stats.t.isf(ALPHA / 2 / 3, count - 1) * math.sqrt(2 / count) for count in (seeds - 1, seeds)]
    assert [half < 2.0 for half in halves] == [False, True]


def test_a_larger_difference_never_needs_more_and_beyond_what_is_advised_nothing_is_needed():
    seeds = [needed(line(size, 0.3, 0.0, 3), Family(3, star(3)), None, 0).seeds for size in (0.5, 0.7, 1.0, 1.5)]
    assert seeds == sorted(seeds, reverse=True) and seeds[0] > seeds[-1]
    assert needed(line(0.01, 1.0, 0.0, 3), Family(3, star(3)), None, 0).seeds is None
    assert needed(line(0.0, 1.0, 0.0, 3), Family(3, star(3)), None, 600).seeds is None
    assert needed(Decided(1.0, math.nan, math.nan, 1, math.nan, math.nan, 0), Family(2, star(2)), 1.0, 0).seeds is None
    assert MOST_SEEDS == 64


def test_a_study_that_stops_needs_the_seeds_at_which_its_look_decides():
    before = line(1.45, 0.3, 0.0, 3)
    seeds = needed(before, Family(4, star(4), 1.0, 5), None, 0).seeds
    reaches = {count: at_level(Family(4, star(4), 1.0, 5).cutoffs(count).seeds, ALPHA) for count in (seeds - 1, seeds)}
    halves = [reach * math.sqrt(0.9 / count) for count, reach in reaches.items()]
    assert [half < 1.45 for half in halves] == [False, True]
    assert needed(line(0.1, 0.3, 0.0, 3), Family(3, star(3), 1.0, 4), None, 0).seeds is None
    # one that cannot decide with its seeds is told what a larger one needs
    few, many = (needed(line(0.02, 1e-4, 0.0, 4), Family(3, star(3), 1.0, most), None, 0).seeds for most in (4, 64))
    assert few == many and 4 < many <= MOST_SEEDS
