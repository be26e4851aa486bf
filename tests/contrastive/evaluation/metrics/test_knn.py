"""The nearest neighbour is scikit-learn's, and a loop's in float64, whatever the embeddings."""

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from contrastive.evaluation.metrics import measure
from contrastive.evaluation.metrics.folds import folds
from contrastive.evaluation.metrics.knn import nearest_text
from contrastive.evaluation.metrics.pairs import unit_rows as made_directions
from contrastive.evaluation.metrics.types import Inputs
from tests.contrastive.evaluation.metrics.hostile import EMBEDDINGS, directions, inputs

every_one = pytest.mark.parametrize("name", EMBEDDINGS)


def overlapping(texts: int = 300, size: int = 8, shift: float = 0.0) -> Inputs:
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 3, texts)
    vectors = np.eye(3, size)[labels] + generator.normal(size=(texts, size)) + shift
    return Inputs(vectors.astype(np.float32), labels, None, folds=5)


def neighbours(given: Inputs) -> tuple[np.ndarray, np.ndarray]:
    fold = np.empty(len(given.labels), np.int64)
    for number, (_, test) in enumerate(folds(given)):
        fold[test] = number
    exact = given.embeddings.astype(np.float64)
    return nearest_text(exact - exact.mean(0), fold), nearest_text(made_directions(given.embeddings), fold)


def by_a_loop(vectors: np.ndarray, given: Inputs) -> np.ndarray:
    found = np.empty(len(vectors), np.int64)
    for train, test in folds(given):
        for text in test:
            found[text] = train[np.square(vectors[train] - vectors[text]).sum(1).argmin()]
    return found


def test_by_hand():
    """Folds {1, 2} and {0, 3}. 0 at (1, 0) is nearest to 2 at (1, 1), and in direction to 1 at (4, ½); and so on."""
    vectors = np.array([[1, 0], [4, 0.5], [1, 1], [5, 6]], np.float32)
    given = Inputs(vectors, np.array([0, 0, 1, 1]), None, folds=2)
    assert [test.tolist() for _, test in folds(given)] == [[1, 2], [0, 3]]
    euclidean, cosine = neighbours(given)
    assert (euclidean.tolist(), cosine.tolist()) == ([2, 0, 0, 1], [1, 0, 3, 2])
    found = {score.name: score.value for score in measure(["knn"], given)}
    assert found == {"knn_accuracy": 1 / 4, "knn_cosine_accuracy": 1.0}


@pytest.mark.parametrize("shift", [0.0, 1e5])  # far from the origin, where squares swallow differences
def test_it_is_the_cross_validation_of_scikit_learn(shift):
    given = overlapping(shift=shift)
    vectors = given.embeddings.astype(np.float64)
    splitter = StratifiedKFold(5, shuffle=True, random_state=0)
    model = KNeighborsClassifier(1, algorithm="kd_tree")  # differences, not squares
    plain = cross_val_score(model, vectors, given.labels, cv=splitter)
    score = measure(["knn"], given)[0]
    assert (score.name, score.count) == ("knn_accuracy", 300)
    assert score.value == pytest.approx(plain.mean(), abs=1e-12)
    assert score.standard_error == pytest.approx((score.value * (1 - score.value) / 300) ** 0.5)


@pytest.mark.parametrize("shift", [0.0, 100.0])
def test_by_the_cosine_too(shift):
    given = overlapping(shift=shift)
    splitter = StratifiedKFold(5, shuffle=True, random_state=0)
    model = KNeighborsClassifier(1, metric="cosine")
    plain = cross_val_score(model, given.embeddings.astype(np.float64), given.labels, cv=splitter)
    score = measure(["knn"], given)[1]
    assert (score.name, score.count) == ("knn_cosine_accuracy", 300)
    assert score.value == pytest.approx(plain.mean(), abs=1e-12)


@every_one
def test_it_is_the_loop_over_pairs(name):
    given = inputs(name)
    euclidean, cosine = neighbours(given)
    vectors = given.embeddings.astype(np.float64)
    unit = max(np.abs(vectors).max(), 1e-300)
    equally_near(euclidean, by_a_loop(vectors, given), vectors / unit)
    equally_near(cosine, by_a_loop(directions(name), given), directions(name))


def equally_near(found: np.ndarray, expected: np.ndarray, vectors: np.ndarray) -> None:
    """The same text; or one that float64 cannot tell from it."""
    apart, least = (np.square(vectors[index] - vectors).sum(1) for index in (found, expected))
    size = np.square(vectors).sum(1).max()
    assert ((found == expected) | (apart <= least + 1e-12 * size)).all()


@pytest.mark.parametrize("name", ["clouds", "far from the origin", "tiny", "huge", "nearly a point a class"])
def test_where_float64_can_tell_it_is_the_same_text(name):
    given = inputs(name)
    euclidean, cosine = neighbours(given)
    assert (euclidean == by_a_loop(given.embeddings.astype(np.float64), given)).all()
    assert (cosine == by_a_loop(directions(name), given)).all()


def test_neighbours_that_float32_cannot_tell_apart():
    """Two neighbours of each text, the farther one first, by a difference that is lost among 500 large products."""
    generator = np.random.default_rng(0)
    middle = generator.normal(size=(30, 500))
    away = 1e-3 * generator.normal(size=(30, 500))
    vectors = np.concatenate([middle, middle + 1.0001 * away, middle - away]).astype(np.float32)
    given = Inputs(vectors, np.tile(np.arange(3), 30), None, folds=5)
    assert (neighbours(given)[0] == by_a_loop(vectors.astype(np.float64), given)).all()


def test_each_text_is_kept_for_paired_tests():
    euclidean, cosine = measure(["knn"], overlapping())
    assert euclidean.each.dtype == cosine.each.dtype == bool
    assert (euclidean.each.mean(), cosine.each.mean()) == (euclidean.value, cosine.value)
