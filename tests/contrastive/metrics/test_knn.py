"""The nearest neighbour is scikit-learn's, and a loop's."""

import sys

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from contrastive.metrics.folds import folds
from contrastive.metrics.knn import knn, nearest
from contrastive.metrics.types import Inputs


def overlapping(texts: int = 300, size: int = 8, shift: float = 0.0) -> Inputs:
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 3, texts)
    vectors = np.eye(3, size)[labels] + generator.normal(size=(texts, size)) + shift
    return Inputs(vectors.astype(np.float32), labels, None, folds=5)


@pytest.mark.parametrize("shift", [0.0, 1e5])  # far from the origin, where squares swallow differences
def test_it_is_the_cross_validation_of_scikit_learn(shift):
    inputs = overlapping(shift=shift)
    vectors = inputs.embeddings.astype(np.float64)
    splitter = StratifiedKFold(5, shuffle=True, random_state=0)
    model = KNeighborsClassifier(1, algorithm="kd_tree")  # differences, not squares
    plain = cross_val_score(model, vectors, inputs.labels, cv=splitter)
    (score,) = knn(inputs)
    assert (score.name, score.count) == ("knn_accuracy", 300)
    assert score.value == pytest.approx(plain.mean(), abs=1e-12)
    assert score.standard_error == pytest.approx((score.value * (1 - score.value) / 300) ** 0.5)


def test_it_is_the_loop_over_pairs():
    inputs = overlapping(texts=60)
    right = 0
    for train, test in folds(inputs):
        for text in test:
            distances = [float(((inputs.embeddings[text] - inputs.embeddings[other]) ** 2).sum()) for other in train]
            right += int(inputs.labels[train[int(np.argmin(distances))]] == inputs.labels[text])
    assert knn(inputs)[0].value == right / 60


def test_by_hand():
    points = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 3.0]])
    queries = np.array([[1.0, 1.0], [3.0, 0.0], [0.0, 2.0], [2.0, 0.0]])  # the last lies between the first two
    assert nearest(queries, points).tolist() == [0, 1, 2, 0]


def test_of_equal_points_the_first_wins_whatever_the_rounding():
    generator = np.random.default_rng(0)
    points = np.tile(generator.normal(size=(7, 33)), (50, 1))
    queries = points[:7] + 1e-3 * generator.normal(size=(7, 33))
    assert nearest(queries, points).tolist() == list(range(7))


def test_rows_at_a_time_change_nothing(monkeypatch):
    whole = knn(overlapping())
    monkeypatch.setattr(sys.modules[knn.__module__], "ROWS", 7)
    assert knn(overlapping()) == whole
