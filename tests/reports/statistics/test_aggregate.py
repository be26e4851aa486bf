import itertools

import numpy as np
import pytest

from reports.statistics import expected_best, interquartile_mean


def test_the_interquartile_mean_is_that_of_the_middle_half():
    scores = {"one": np.array([0.0, 0.5, 0.6, 0.7]), "other": np.array([0.1, 0.4, 0.8, 9.0])}
    mean, low, high = interquartile_mean(scores, seed=0)
    assert mean == pytest.approx(np.mean([0.4, 0.5, 0.6, 0.7])) and low < mean < high
    assert interquartile_mean(scores, seed=0) == (mean, low, high)


def test_each_data_set_keeps_its_share_when_seeds_are_drawn_again():
    scores = {"easy": np.full(3, 0.9), "hard": np.full(3, 0.1)}
    assert interquartile_mean(scores, seed=0) == pytest.approx((0.5, 0.5, 0.5))


def test_the_expected_best_is_that_of_all_draws_with_replacement():
    scores = np.array([0.3, 0.9, 0.3, 0.5])
    mean, deviation = expected_best(scores)
    for tries in range(1, 5):
        greatest = [max(drawn) for drawn in itertools.product(scores, repeat=tries)]
        assert (mean[tries - 1], deviation[tries - 1]) == pytest.approx((np.mean(greatest), np.std(greatest)))
