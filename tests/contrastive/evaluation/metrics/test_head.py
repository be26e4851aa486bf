"""Measures of the head: accuracy, macro-F1 and calibration, by hand, by scikit-learn and by a loop over bins."""

import numpy as np
import pytest
from sklearn.metrics import precision_recall_fscore_support

from contrastive.evaluation.metrics import measure
from contrastive.evaluation.metrics.types import Inputs, Score


def measured(name: str, labels, logits) -> Score:
    vectors = np.zeros((len(labels), 2), np.float32)
    (score,) = measure([name], Inputs(vectors, np.asarray(labels), np.asarray(logits, np.float32), folds=5))
    assert (score.name, score.count, score.higher_is_better) == (name, len(labels), name != "ece")
    return score


def guessed(name: str, labels, predictions) -> Score:
    return measured(name, labels, np.eye(9)[predictions])


def ece(probabilities, labels) -> float:
    return measured("ece", labels, np.log(np.asarray(probabilities))).value


@pytest.mark.parametrize("name", ["accuracy", "macro_f1", "ece"])
def test_a_cell_without_a_head_has_none(name):
    assert measure([name], Inputs(np.zeros((2, 2), np.float32), np.array([0, 1]), None, folds=5)) == []


def test_accuracy_is_counted_by_hand():
    score = guessed("accuracy", [0, 1, 2, 1], [0, 1, 2, 2])
    assert (score.value, score.standard_error) == (0.75, pytest.approx((0.75 * 0.25 / 4) ** 0.5))
    perfect = guessed("accuracy", [0, 1], [0, 1])
    assert (perfect.value, perfect.standard_error) == (1.0, 0.0)


def test_macro_f1_is_the_mean_over_classes_of_scikit_learn():
    labels, guesses = np.random.default_rng(0).integers(0, 5, (2, 200))
    guesses[guesses == 3] = 2  # a class that is never guessed
    expected = precision_recall_fscore_support(labels, guesses, zero_division=0)[2].mean()
    assert guessed("macro_f1", labels, guesses).value == pytest.approx(expected)


def test_calibration_is_the_loop_over_bins():
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
    assert measured("ece", [1, 0], [[1e4, 0], [np.log(19), 0]]).value == pytest.approx(0.95 / 2, rel=1e-5)
    assert measured("ece", [0, 0], [[3e38, -3e38], [-3e38, 3e38]]).value == 0.5
