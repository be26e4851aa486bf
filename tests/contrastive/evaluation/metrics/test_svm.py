"""The linear SVM is scikit-learn's in the plain way, and sees no test text in any form."""

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from contrastive.evaluation.metrics.svm import svm
from contrastive.evaluation.metrics.types import Inputs


def overlapping(texts: int = 200, size: int = 10, classes: int = 3) -> Inputs:
    generator = np.random.default_rng(0)
    labels = generator.integers(0, classes, texts)
    vectors = np.eye(classes, size)[labels] + generator.normal(size=(texts, size))
    return Inputs(vectors.astype(np.float32), labels, None, folds=5)


@pytest.mark.slow
@pytest.mark.parametrize("size", [10, 300])  # more texts than dimensions, and fewer
def test_it_is_the_cross_validation_of_a_pipeline(size):
    inputs = overlapping(size=size)
    model = make_pipeline(StandardScaler(), LinearSVC(dual="auto", random_state=0, max_iter=100_000, tol=1e-6))
    plain = cross_val_score(
        model, inputs.embeddings, inputs.labels, cv=StratifiedKFold(5, shuffle=True, random_state=0)
    )
    (score,) = svm(inputs)
    assert score.value == pytest.approx(plain.mean(), abs=1e-3)
    assert (score.name, score.count) == ("svm_accuracy", 200)
    assert score.standard_error == pytest.approx((score.value * (1 - score.value) / 200) ** 0.5)


def test_separable_classes_by_hand():
    vectors = np.array([[x, y] for x in (-3.0, -2.0, -1.0, 1.0, 2.0, 3.0) for y in (0.0, 5.0)], np.float32)
    (score,) = svm(Inputs(vectors, (vectors[:, 0] > 0).astype(np.int64), None, folds=2))
    assert score.value == 1.0


def test_exclusive_or_is_beyond_a_line():
    corners = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 10, np.float32)
    (score,) = svm(Inputs(corners, np.array([0, 1, 1, 0] * 10), None, folds=5))
    assert score.value <= 0.75


def test_the_scale_of_a_dimension_does_not_matter():
    inputs = overlapping()
    scaled = Inputs(inputs.embeddings * np.float32(2.0) ** np.arange(-5, 5, dtype=np.float32), inputs.labels, None, 5)
    assert svm(scaled)[0].value == svm(inputs)[0].value


def test_the_scaler_is_fitted_on_the_training_folds_only():
    """Were it fitted on all texts, the few huge ones of a fold would shrink the others of that fold too."""
    inputs = overlapping(texts=300)
    vectors = inputs.embeddings.copy()
    vectors[::60] *= 100
    inputs = Inputs(vectors, inputs.labels, None, 5)
    splitter = StratifiedKFold(5, shuffle=True, random_state=0)
    model = LinearSVC(dual=False, tol=1e-8, max_iter=100_000)
    inside = cross_val_score(make_pipeline(StandardScaler(), model), vectors, inputs.labels, cv=splitter)
    outside = cross_val_score(model, StandardScaler().fit_transform(vectors), inputs.labels, cv=splitter)
    assert svm(inputs)[0].value == pytest.approx(inside.mean(), abs=1e-3)
    assert abs(inside.mean() - outside.mean()) > 3e-3
