"""Uniformity is Wang & Isola's, worked out by hand and by SciPy."""

import math

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from contrastive.evaluation.metrics import measure
from contrastive.evaluation.metrics.types import Inputs
from tests.contrastive.evaluation.metrics.hostile import EMBEDDINGS, directions, inputs


def test_by_hand():
    """Two texts at a right angle, of any length, are √2 apart; a third is opposite the first: 2, and √2."""
    vectors = np.array([[3, 0], [0, 0.5], [-1, 0]], np.float32)
    (score,) = measure(["uniformity"], Inputs(vectors, np.zeros(3, np.int64), None, folds=5))
    assert (score.name, score.count, score.higher_is_better) == ("uniformity", 3, False)
    assert score.value == pytest.approx(math.log((2 * math.exp(-4) + math.exp(-8)) / 3), rel=1e-6)


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_it_is_the_mean_over_all_pairs(name):
    (score,) = measure(["uniformity"], inputs(name))
    expected = math.log(np.exp(-2 * pdist(directions(name), "sqeuclidean")).mean())
    assert score.value == pytest.approx(expected, rel=2e-5, abs=2e-7)


def test_collapsed_is_worst_and_many_random_directions_are_near_minus_four():
    assert measure(["uniformity"], inputs("one point"))[0].value == pytest.approx(0, abs=1e-12)
    scattered = np.random.default_rng(0).normal(size=(300, 500)).astype(np.float32)
    (score,) = measure(["uniformity"], Inputs(scattered, np.zeros(300, np.int64), None, folds=5))
    assert score.value == pytest.approx(-4, abs=0.05)
