"""Texts' part of a variance against loops, McNemar against statsmodels, improvement against scipy, means by hand."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar as mcnemar_of_statsmodels

from reports.statistics import Summary, expected_best, improvement, interquartile_mean, mcnemar, summarise
from reports.statistics.paired import text_parts
from tests.reports.statistics import by_hand


def texts(rows: int, seeds: int, count: int, start: int = 0) -> np.ndarray:
    """Right or wrong: recipes differ by text, and seeds by recipe."""
    random = np.random.default_rng(start)
    latent = 1 + random.normal(size=(rows, seeds, count)) + random.normal(size=(rows, 1, count))
    return latent + 0.3 * random.normal(size=(rows, seeds, 1)) > 0


def test_what_texts_make_of_the_variance_is_what_loops_say_and_right_on_average():
    for seeds, start in itertools.product((2, 3, 5), range(5)):
        each = texts(2, seeds, 40, start)
        assert text_parts(each)[0] == pytest.approx(by_hand.text_variance(*each), abs=1e-15)
    random = np.random.default_rng(0)
    each = 2 * random.normal(size=(500, 2, 3, 40)) + random.normal(size=(500, 2, 1, 40))
    assert np.mean([text_parts(study)[0] for study in each]) == pytest.approx(2 / 40, rel=0.06)
    # one text, and texts that make no difference
    assert text_parts(texts(2, 3, 1))[0] == text_parts(texts(1, 3, 40).repeat(2, axis=0))[0] == 0


def test_mcnemar_is_that_of_statsmodels():
    for start in range(5):
        ours, theirs = texts(2, 1, 80, start)[:, 0]
        table = [[(ours & theirs).sum(), (ours & ~theirs).sum()], [(theirs & ~ours).sum(), (~ours & ~theirs).sum()]]
        exact = mcnemar_of_statsmodels(table, exact=True).pvalue
        assert mcnemar(ours, theirs) == (table[0][1], table[1][0], pytest.approx(exact))
    assert mcnemar(ours, ours) == (0, 0, 1.0)


def test_the_probability_of_improvement_is_mann_and_whitneys():
    random = np.random.default_rng(0)
    ours, theirs = random.integers(8, size=5) / 10, random.integers(2, 8, size=4) / 10
    assert improvement(ours, theirs) == pytest.approx(stats.mannwhitneyu(ours, theirs).statistic / 20)
    assert improvement(np.array([2.0, 3.0]), np.array([0.0, 1.0])) == 1.0


def test_the_interquartile_mean_is_that_of_the_middle_half():
    scores = {"one": np.array([0.0, 0.5, 0.6, 0.7]), "other": np.array([0.1, 0.4, 0.8, 9.0])}
    mean, low, high = interquartile_mean(scores, seed=0)
    assert mean == pytest.approx(np.mean([0.4, 0.5, 0.6, 0.7])) and low < mean < high
    assert interquartile_mean(scores, seed=0) == (mean, low, high)
    # each data set keeps its share when seeds are drawn again
    scores = {"easy": np.full(3, 0.9), "hard": np.full(3, 0.1)}
    assert interquartile_mean(scores, seed=0) == pytest.approx((0.5, 0.5, 0.5))


def test_the_expected_best_is_that_of_all_draws_with_replacement():
    scores = np.array([0.3, 0.9, 0.3, 0.5])
    mean, deviation = expected_best(scores)
    for tries in range(1, 5):
        greatest = [max(drawn) for drawn in itertools.product(scores, repeat=tries)]
        assert (mean[tries - 1], deviation[tries - 1]) == pytest.approx((np.mean(greatest), np.std(greatest)))


def test_the_half_width_is_students_one_seed_has_none_and_no_value_no_summary():
    found = summarise([0.1, 0.2, 0.3])  # t(0.975, 2) = 4.302653, standard deviation 0.1
    assert found.mean == pytest.approx(0.2) and found.half_width == pytest.approx(4.302653 * 0.1 / math.sqrt(3))
    assert found.seeds == 3
    assert summarise([0.5]) == Summary(0.5, None, 1)
    assert summarise([0.5, math.nan]) == Summary(0.5, None, 1)
    assert summarise([]) is None and summarise([math.nan]) is None
