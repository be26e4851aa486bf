"""Accuracy of the head, counted by hand."""

import numpy as np
import pytest

from contrastive.evaluation.metrics.accuracy import accuracy
from contrastive.evaluation.metrics.types import Inputs


def inputs(labels: list[int], predictions: list[int] | None) -> Inputs:
    guesses = None if predictions is None else np.eye(3, dtype=np.float32)[predictions]
    return Inputs(np.zeros((len(labels), 2), np.float32), np.array(labels), guesses, folds=5)


def test_three_of_four():
    (score,) = accuracy(inputs([0, 1, 2, 1], [0, 1, 2, 2]))
    assert (score.name, score.value, score.count, score.higher_is_better) == ("accuracy", 0.75, 4, True)
    assert score.standard_error == pytest.approx((0.75 * 0.25 / 4) ** 0.5)


def test_all_right_has_no_error():
    (score,) = accuracy(inputs([0, 1], [0, 1]))
    assert (score.value, score.standard_error) == (1.0, 0.0)


def test_a_cell_without_a_head_has_none():
    assert accuracy(inputs([0, 1], None)) == []
