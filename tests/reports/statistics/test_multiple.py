import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from reports.statistics import holm, tied


@pytest.mark.slow
def test_holm_is_that_of_statsmodels():
    random = np.random.default_rng(0)
    for size in (1, 2, 7, 40):
        p = random.random(size) ** 3
        assert holm(p) == pytest.approx(multipletests(p, method="holm")[1])


def test_what_was_not_tested_is_not_counted():
    p = np.array([[0.01, np.nan], [0.03, np.nan]])
    assert holm(p) == pytest.approx(np.array([[0.02, np.nan], [0.03, np.nan]]), nan_ok=True)
    assert np.isnan(holm(np.full(2, np.nan))).all() and holm(np.array([])).size == 0


def test_only_what_a_better_row_beats_is_not_tied_with_the_best():
    means = np.array([0.9, 0.89, 0.7, 0.6])
    adjusted = np.full((4, 4), 1.0)
    adjusted[0, 2] = adjusted[2, 0] = 0.05
    adjusted[3, :] = adjusted[:, 3] = np.nan  # it was tested against nothing
    assert tied(means, adjusted, higher=True).tolist() == [True, True, False, True]
    assert tied(means, adjusted, higher=False).tolist() == [False, True, True, True]


def test_a_row_without_a_mean_is_not_among_the_best():
    assert tied(np.array([0.9, np.nan]), np.full((2, 2), np.nan), higher=True).tolist() == [True, False]
