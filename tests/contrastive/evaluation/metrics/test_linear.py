"""The solver's optimum is that of scikit-learn, on any kind of input."""

import itertools

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from contrastive.evaluation.metrics import linear
from contrastive.evaluation.metrics.linear import Classifiers, fit_classifiers

both_losses = pytest.mark.parametrize("loss", ["hinge", "logistic"])


def one(vectors, classes, strength: float = 1.0, *, loss: str = "hinge", scaled: bool = False) -> Classifiers:
    members = np.ones((1, len(classes)), bool)
    return fit_classifiers(vectors, np.asarray(classes), members, np.array([strength]), loss=loss, scaled=scaled)


def clouds(texts: int, size: int, classes: int, *, apart: float = 1.0, shares=None, seed: int = 0):
    """A cloud a class, of dimensions that differ in their spread, away from the origin."""
    generator = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(classes), generator.choice(classes, texts - classes, p=shares)])
    vectors = apart * np.eye(classes, size)[labels] + generator.normal(size=(texts, size))
    return (vectors * generator.lognormal(size=size) + 3).astype(np.float32), labels


def peer(vectors, classes, strength: float, loss: str, scaled: bool):
    """scikit-learn's, at a tolerance at which nothing moves any more."""
    if loss == "logistic":
        model = LogisticRegression(C=strength, tol=1e-8, max_iter=20_000)
    else:
        dual = len(vectors) < vectors.shape[1]
        model = LinearSVC(C=strength, dual=dual, tol=1e-8, max_iter=1_000_000, random_state=0)
    return (make_pipeline(StandardScaler(), model) if scaled else model).fit(vectors.astype(np.float64), classes)


CASES = {
    "two classes": clouds(300, 12, 2),
    "three classes": clouds(300, 12, 3),
    "twenty classes": clouds(800, 25, 20, apart=2.0),
    "imbalanced": clouds(400, 8, 3, shares=[0.9, 0.07, 0.03]),
    "separable": clouds(200, 10, 2, apart=12.0),
    "fewer rows than dimensions": clouds(60, 150, 3),
    "a mean of a thousand": (clouds(300, 6, 2)[0] + np.float32(1000), clouds(300, 6, 2)[1]),
    "duplicates": tuple(np.tile(part, (4, 1) if part.ndim == 2 else 4) for part in clouds(50, 8, 2)),
    "collapsed": (np.full((40, 3), 0.1, np.float32), np.repeat([0, 1], [30, 10])),
    "one dimension": (clouds(200, 2, 2)[0][:, :1], clouds(200, 2, 2)[1]),
    "a constant dimension": (clouds(200, 6, 2)[0] * np.array([1, 1, 1, 0, 1, 1], np.float32), clouds(200, 6, 2)[1]),
}


# each case with one of the losses, in turns; the small ones below have both
@pytest.mark.parametrize(("case", "loss"), list(zip(CASES, itertools.cycle(["hinge", "logistic"]))))
def test_it_is_the_pipeline_of_scikit_learn(case, loss):
    (vectors, classes), generator = CASES[case], np.random.default_rng(1)
    members, strengths = generator.random((3, len(classes))) < 0.8, np.array([0.05, 1.0, 1.0])
    members[:, np.unique(classes, return_index=True)[1]] = True
    found = fit_classifiers(vectors, classes, members, strengths, loss=loss, scaled=True)
    for problem, (rows, strength) in enumerate(zip(members, strengths, strict=True)):
        model = peer(vectors[rows], classes[rows], strength, loss, scaled=True)
        expected = model.decision_function(vectors.astype(np.float64))
        scores = found.decide(vectors, problem)
        assert np.abs(scores - expected).max() <= 2e-3 * np.abs(expected).max()
        assert np.mean(found.predict(vectors, problem) != model.predict(vectors.astype(np.float64))) <= 1e-3


@pytest.mark.parametrize("case", ["three classes", "imbalanced", "fewer rows than dimensions", "collapsed"])
@both_losses
def test_without_a_scaler_too(case, loss):
    vectors, classes = CASES[case]
    found, model = one(vectors, classes, 0.5, loss=loss), peer(vectors, classes, 0.5, loss, scaled=False)
    expected = model.decision_function(vectors.astype(np.float64))
    assert np.abs(found.decide(vectors, 0) - expected).max() <= 3e-3 * np.abs(expected).max()


@both_losses
@pytest.mark.parametrize("size", [1e-20, 1e-3, 1e20])
def test_the_size_of_the_vectors_does_not_matter_to_a_scaler(loss, size):
    vectors, classes = clouds(200, 5, 3)
    plain = one(vectors, classes, loss=loss, scaled=True).decide(vectors, 0)
    other = (vectors.astype(np.float64) * size).astype(np.float32)
    assert one(other, classes, loss=loss, scaled=True).decide(other, 0) == pytest.approx(plain, abs=1e-3)


def test_a_search_that_does_not_end_is_told(monkeypatch):
    monkeypatch.setattr(linear, "STEPS", 1)
    vectors, classes = clouds(100, 5, 2)
    with pytest.warns(RuntimeWarning, match="1 linear classifiers have not converged after 1 steps"):
        one(vectors, classes)


@both_losses
def test_blocks_of_rows_change_nothing_but_rounding(monkeypatch, loss):
    vectors, classes = clouds(200, 5, 3)
    whole = one(vectors, classes, loss=loss).decide(vectors, 0)
    monkeypatch.setattr(linear, "ROWS", 7)
    assert one(vectors, classes, loss=loss).decide(vectors, 0) == pytest.approx(whole, abs=1e-3)
