"""Calibration, worked out by hand and by a loop over bins."""

import numpy as np
import pytest

from contrastive.evaluation.metrics import measure
from contrastive.evaluation.metrics.types import Inputs


def ece(probabilities, labels):
    logits = np.log(np.asarray(probabilities)).astype(np.float32)
    (score,) = measure(["ece"], Inputs(np.zeros((len(labels), 2), np.float32), np.asarray(labels), logits, folds=5))
    assert (score.name, score.count, score.higher_is_better) == ("ece", len(labels), False)
    return score.value


def test_by_hand():
    """Bins of 1/15: .9 and .92 share one, half right; .7 and .55 have their own, right and wrong."""
    confident = [[0.9, 0.1], [0.92, 0.08], [0.3, 0.7], [0.55, 0.45]]
    assert ece(confident, [0, 1, 1, 1]) == pytest.approx((abs(1 - 0.9 - 0.92) + 0.3 + 0.55) / 4, rel=1e-5)


def test_a_head_that_knows_how_often_it_is_right():
    assert ece([[0.75, 0.25]] * 4, [0, 0, 0, 1]) == pytest.approx(0, abs=1e-6)


def test_it_is_the_loop_over_bins():
    generator = np.random.default_rng(0)
    probabilities, labels = generator.dirichlet(np.ones(4), 500), generator.integers(0, 4, 500)
    confidence, right = probabilities.max(1), probabilities.argmax(1) == labels
    expected = 0.0
    for bin in range(15):
        inside = (confidence > bin / 15) & (confidence <= (bin + 1) / 15)
        if inside.any():
            expected += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
    assert ece(probabilities, labels) == pytest.approx(expected, rel=1e-5)


def test_a_head_that_is_certain_shares_the_last_bin():
    """1 and wrong, .95 and right: one bin of 1.95 against 1, not two with gaps of 1 and .05."""
    logits = np.array([[1e4, 0], [np.log(19), 0]], np.float32)
    (score,) = measure(["ece"], Inputs(np.zeros((2, 2), np.float32), np.array([1, 0]), logits, folds=5))
    assert score.value == pytest.approx(0.95 / 2, rel=1e-5)


def test_huge_logits_are_certain():
    logits = np.array([[3e38, -3e38], [-3e38, 3e38]], np.float32)
    (score,) = measure(["ece"], Inputs(np.zeros((2, 2), np.float32), np.array([0, 0]), logits, folds=5))
    assert score.value == 0.5


def test_a_cell_without_a_head_has_none():
    assert measure(["ece"], Inputs(np.zeros((2, 2), np.float32), np.array([0, 1]), None, folds=5)) == []
