"""Macro-F1 of the head, worked out by hand, and that of scikit-learn on random answers."""

import numpy as np
import pytest
from sklearn.metrics import precision_recall_fscore_support

from contrastive.evaluation.metrics.macro_f1 import macro_f1
from contrastive.evaluation.metrics.types import Inputs


def value(labels, predictions) -> float:
    logits = np.eye(9, dtype=np.float32)[predictions]
    (score,) = macro_f1(Inputs(np.zeros((len(labels), 2), np.float32), np.array(labels), logits, folds=5))
    assert (score.name, score.count) == ("macro_f1", len(labels))
    return score.value


def test_by_hand():
    # class 0: precision 2/3, recall 1, F1 4/5; class 1: precision 1, recall 1/2, F1 2/3; class 2: 1
    assert value([0, 0, 1, 1, 2], [0, 0, 0, 1, 2]) == pytest.approx((4 / 5 + 2 / 3 + 1) / 3)


def test_a_class_that_is_never_predicted_counts_nothing():
    assert value([0, 0, 0, 1], [0, 0, 0, 0]) == pytest.approx((6 / 7 + 0) / 2)


def test_a_rare_class_weighs_as_much_as_a_frequent_one():
    labels = np.array([0] * 98 + [1] * 2)
    assert value(labels, np.zeros(100, np.int64)) < 0.5


def test_it_is_the_mean_over_classes():
    generator = np.random.default_rng(0)
    labels, guesses = generator.integers(0, 5, 200), generator.integers(0, 5, 200)
    assert value(labels, guesses) == pytest.approx(precision_recall_fscore_support(labels, guesses)[2].mean())


def test_a_cell_without_a_head_has_none():
    assert macro_f1(Inputs(np.zeros((2, 2), np.float32), np.array([0, 1]), None, folds=5)) == []
