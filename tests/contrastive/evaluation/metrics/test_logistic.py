"""The logistic probe is scikit-learn's in the plain way."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from contrastive.evaluation.metrics.logistic import logistic
from contrastive.evaluation.metrics.types import Inputs


def overlapping(texts: int, size: int, classes: int) -> Inputs:
    generator = np.random.default_rng(0)
    labels = generator.integers(0, classes, texts)
    vectors = 1.5 * np.eye(classes, size)[labels] + generator.normal(size=(texts, size))
    return Inputs(vectors.astype(np.float32), labels, None, folds=5)


@pytest.mark.parametrize("classes", [2, 3, 20])
@pytest.mark.parametrize("size", [20, 500])  # more texts than dimensions, and fewer
def test_it_is_the_cross_validation_of_a_pipeline(size, classes):
    inputs = overlapping(400, size, classes)
    model = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-8, max_iter=20_000))
    splitter = StratifiedKFold(5, shuffle=True, random_state=0)
    plain = cross_val_score(model, inputs.embeddings.astype(np.float64), inputs.labels, cv=splitter)
    (score,) = logistic(inputs)
    assert score.value == pytest.approx(plain.mean(), abs=1e-3)
    assert (score.name, score.count) == ("logistic_accuracy", 400)
    assert score.each.mean() == score.value and score.standard_error is not None


def test_separable_classes_by_hand():
    vectors = np.array([[x, y] for x in (-3.0, -2.0, -1.0, 1.0, 2.0, 3.0) for y in (0.0, 5.0)], np.float32)
    (score,) = logistic(Inputs(vectors, (vectors[:, 0] > 0).astype(np.int64), None, folds=2))
    assert score.value == 1.0


def test_collapsed_vectors_are_worth_the_most_frequent_class():
    (score,) = logistic(Inputs(np.ones((50, 4), np.float32), np.repeat([0, 1], [30, 20]), None, folds=5))
    assert score.value == 0.6
