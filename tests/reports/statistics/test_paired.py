"""The texts' part of a variance against loops, McNemar against statsmodels, improvement against scipy."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar as mcnemar_of_statsmodels

from reports.statistics import improvement, mcnemar
from reports.statistics.paired import text_parts
from tests.reports.statistics import by_hand


def texts(rows: int, seeds: int, count: int, start: int = 0) -> np.ndarray:
    """Right or wrong: recipes differ by text, and seeds by recipe."""
    random = np.random.default_rng(start)
    latent = 1 + random.normal(size=(rows, seeds, count)) + random.normal(size=(rows, 1, count))
    return latent + 0.3 * random.normal(size=(rows, seeds, 1)) > 0


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_what_texts_make_of_the_variance_is_what_loops_say(seeds: int):
    for start in range(5):
        each = texts(2, seeds, 40, start)
        assert text_parts(each)[0] == pytest.approx(by_hand.text_variance(*each), abs=1e-15)


def test_it_is_right_on_average():
    random = np.random.default_rng(0)
    each = 2 * random.normal(size=(500, 2, 3, 40)) + random.normal(size=(500, 2, 1, 40))
    assert np.mean([text_parts(study)[0] for study in each]) == pytest.approx(2 / 40, rel=0.06)


def test_one_text_and_texts_that_make_no_difference_have_no_part():
    assert text_parts(texts(2, 3, 1))[0] == 0
    each = texts(1, 3, 40).repeat(2, axis=0)
    assert text_parts(each)[0] == 0


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
