"""Probes by cross-validation: the folds, the linear SVM, logistic regression and the nearest neighbour.

They are scikit-learn's in the plain way, by hand, or a loop's in float64, whatever the embeddings.
"""

import importlib

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from contrastive.evaluation.metrics import linear, measure
from contrastive.evaluation.metrics.classification import STRENGTHS
from contrastive.evaluation.metrics.clusters import nearest_text
from contrastive.evaluation.metrics.geometry import unit_rows
from contrastive.evaluation.metrics.linear import folds
from contrastive.evaluation.metrics.types import Inputs
from tests.contrastive.evaluation.metrics.hostile import EMBEDDINGS, directions, inputs

SPLITTER = StratifiedKFold(5, shuffle=True, random_state=0)


def overlapping(texts: int = 200, size: int = 10, classes: int = 3, apart: float = 1.0, shift: float = 0.0) -> Inputs:
    generator = np.random.default_rng(0)
    labels = generator.integers(0, classes, texts)
    vectors = apart * np.eye(classes, size)[labels] + generator.normal(size=(texts, size)) + shift
    return Inputs(vectors.astype(np.float32), labels, None, folds=5)


def agrees(name: str, given: Inputs, model, close: float) -> None:
    """The score of this name is the model's cross-validated accuracy, kept text by text, with its standard error."""
    plain = cross_val_score(model, given.embeddings.astype(np.float64), given.labels, cv=SPLITTER)
    metric = "knn" if name.startswith("knn") else name.removesuffix("_accuracy")
    (score,) = (score for score in measure([metric], given) if score.name == name)
    assert score.value == pytest.approx(plain.mean(), abs=close)
    assert (
        score.count == len(given.labels) and score.per_example.dtype == bool and score.per_example.mean() == score.value
    )
    assert score.standard_error == pytest.approx((score.value * (1 - score.value) / score.count) ** 0.5)


def test_folds_test_every_text_once_with_the_classes_in_their_shares():
    """By a model that did not see it; all cells of a data set share the folds, whatever their embeddings."""
    labels = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [50, 30, 20]))
    found = []
    for seed in range(2):
        vectors = np.random.default_rng(seed).normal(size=(100, 4)).astype(np.float32)
        found.append([(train.tolist(), test.tolist()) for train, test in folds(Inputs(vectors, labels, None, 5))])
    assert sorted(text for _, test in found[0] for text in test) == list(range(100))
    assert all(sorted(train + test) == list(range(100)) for train, test in found[0])
    assert [np.bincount(labels[test]).tolist() for _, test in found[0]] == [[10, 6, 4]] * 5
    assert found[0] == found[1]


@pytest.mark.parametrize("size", [10, 300])  # more texts than dimensions, and fewer
def test_the_svm_is_the_cross_validation_of_a_pipeline(size):
    model = make_pipeline(StandardScaler(), LinearSVC(dual="auto", random_state=0, max_iter=100_000, tol=1e-6))
    agrees("svm_accuracy", overlapping(size=size), model, 1e-3)


@pytest.mark.parametrize(("size", "classes"), [(20, 2), (500, 3), (20, 20)])
def test_logistic_regression_takes_the_c_that_is_best_in_the_other_folds(size, classes):
    given, right = overlapping(400, size, classes, apart=2.5), []
    vectors = given.embeddings.astype(np.float64)
    for strength in STRENGTHS:
        model = make_pipeline(StandardScaler(), LogisticRegression(C=strength, tol=1e-8, max_iter=20_000))
        right.append(cross_val_predict(model, vectors, given.labels, cv=SPLITTER) == given.labels)
    expected = np.zeros(400, bool)
    for train, test in SPLITTER.split(vectors, given.labels):
        best = max(STRENGTHS, key=lambda strength: right[STRENGTHS.index(strength)][train].sum())
        expected[test] = right[STRENGTHS.index(best)][test]
    (score,) = measure(["logistic"], given)
    assert score.value == pytest.approx(expected.mean(), abs=1e-3) and (score.per_example != expected).sum() <= 1
    assert size == 20 or score.value > right[STRENGTHS.index(1.0)].mean()


@pytest.mark.parametrize("each", [10, 3])
def test_few_labels_is_logistic_regression_on_ten_texts_of_each_class(each: int, monkeypatch: pytest.MonkeyPatch):
    given, real, seen = overlapping(30 if each == 3 else 200, 6, 2, apart=1.5), linear.fit_classifiers, []

    def watched(rows, classes, members, *rest, **more):
        seen.append(members)
        return real(rows, classes, members, *rest, **more)

    monkeypatch.setattr(linear, "fit_classifiers", watched)
    monkeypatch.setattr(importlib.import_module("contrastive.evaluation.metrics.classification"), "LABELS", each)
    (score,) = measure(["few_labels"], given)
    model, right = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-8, max_iter=20_000)), []
    for member, (train, test) in zip(seen[0], folds(given), strict=True):
        assert set(np.flatnonzero(member)) <= {*train} and np.bincount(given.labels[member]).tolist() == [each] * 2
        model.fit(given.embeddings[member].astype(np.float64), given.labels[member])
        right.append((model.predict(given.embeddings[test].astype(np.float64)) == given.labels[test]).sum())
    assert score.value == pytest.approx(sum(right) / len(given.labels), abs=1e-3) and score.value < 1


@pytest.mark.parametrize(
    ("name", "shift"),  # far from the origin, where squares swallow differences
    [("knn_accuracy", 0.0), ("knn_accuracy", 1e5), ("knn_cosine_accuracy", 0.0), ("knn_cosine_accuracy", 100.0)],
)
def test_the_nearest_neighbour_is_that_of_scikit_learn(name, shift):
    differences, cosine = KNeighborsClassifier(1, algorithm="kd_tree"), KNeighborsClassifier(1, metric="cosine")
    agrees(name, overlapping(300, 8, shift=shift), cosine if "cosine" in name else differences, 1e-12)


def neighbours(given: Inputs) -> tuple[np.ndarray, np.ndarray]:
    fold = np.empty(len(given.labels), np.int64)
    for number, (_, test) in enumerate(folds(given)):
        fold[test] = number
    exact = given.embeddings.astype(np.float64)
    return nearest_text(exact - exact.mean(0), fold), nearest_text(unit_rows(given.embeddings), fold)


def by_a_loop(vectors: np.ndarray, given: Inputs) -> np.ndarray:
    found = np.empty(len(vectors), np.int64)
    for train, test in folds(given):
        for text in test:
            found[text] = train[np.square(vectors[train] - vectors[text]).sum(1).argmin()]
    return found


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_neighbours_are_those_of_a_loop_over_pairs(name):
    """The same text; or, of embeddings that float64 cannot tell apart, one that is equally near."""
    given = inputs(name)
    euclidean, cosine = neighbours(given)
    vectors = given.embeddings.astype(np.float64)
    vectors /= max(np.abs(vectors).max(), 1e-300)
    told_apart = name in ("clouds", "far from the origin", "tiny", "huge", "nearly a point a class")
    for found, exact in ((euclidean, vectors), (cosine, directions(name))):
        expected = by_a_loop(exact, given)
        apart, least = (np.square(exact[index] - exact).sum(1) for index in (found, expected))
        near = apart <= least + 1e-12 * np.square(exact).sum(1).max()
        assert ((found == expected) | (near & (not told_apart))).all()
