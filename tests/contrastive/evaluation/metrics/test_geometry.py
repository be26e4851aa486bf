"""Measures of all pairs: alignment, uniformity, anisotropy, silhouette, and the distances that they read.

On hostile embeddings, by SciPy, scikit-learn, the SVD and what training logs.
"""

import math

import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist
from sklearn.metrics import silhouette_samples, silhouette_score

from contrastive.errors import UserError
from contrastive.evaluation import parallel
from contrastive.evaluation.metrics import geometry, measure
from contrastive.evaluation.metrics.types import Inputs, Score
from contrastive.training import health
from tests.contrastive.evaluation.metrics.hostile import EMBEDDINGS, LABELS, directions, inputs

hostile = pytest.mark.parametrize("name", EMBEDDINGS)


def measured(metric: str, vectors, labels=None) -> dict[str, Score]:
    rows = np.asarray(vectors, np.float32)
    given = Inputs(rows, np.zeros(len(rows), np.int64) if labels is None else np.asarray(labels), None, folds=5)
    return {score.name: score for score in measure([metric], given)}


@hostile
def test_alignment_and_uniformity_are_means_over_all_pairs(name):
    classes = (directions(name)[label == LABELS, :-1] for label in np.unique(LABELS))
    apart = np.concatenate([pdist(rows, "sqeuclidean") for rows in classes])
    alignment, uniformity = measure(["alignment", "uniformity"], inputs(name))
    assert alignment.value == pytest.approx(apart.mean(), rel=1e-7, abs=1e-28)
    expected = math.log(np.exp(-2 * pdist(directions(name), "sqeuclidean")).mean())
    assert uniformity.value == pytest.approx(expected, rel=2e-5, abs=2e-7)
    assert (uniformity.higher_is_better, uniformity.count, alignment.count) == (False, 120, 120)


def test_alignment_of_a_text_through_two_dropouts():
    """A right angle, the same direction, and 60 degrees: 2, 0 and 1."""
    twice = np.array([[[1, 0], [0, 3]], [[1, 1], [2, 2]], [[1, 0], [0.5, 0.75**0.5]]], np.float32)
    vectors = np.ones((5, 2), np.float32)
    of_class, score = measure(["alignment"], Inputs(vectors, np.array([0, 0, 0, 0, 1]), None, 5, twice))
    assert (of_class.name, of_class.count, score.name) == ("alignment_class", 4, "alignment_dropout")
    assert score.per_example == pytest.approx([2, 0, 1], abs=1e-6) and score.per_example.dtype == np.float32
    assert (score.count, score.higher_is_better, score.value) == (3, False, pytest.approx(1))
    assert score.standard_error == pytest.approx(1 / 3**0.5, rel=1e-6)


@hostile
@pytest.mark.parametrize("texts", [120, 20])  # more than dimensions, and fewer
def test_anisotropy_is_the_svd_and_what_training_logs(name, texts):
    vectors = inputs(name).embeddings[:texts]
    found = measured("anisotropy", vectors)
    rows = directions(name)[:texts, :-1]
    singular = np.linalg.svd(rows - rows.mean(0), compute_uv=False)
    shares = singular / max(singular.sum(), 1e-6)
    assert found["top_singular_share"].per_example[: len(shares)] == pytest.approx(shares, abs=1e-6)
    scaled = torch.tensor(vectors).double() / max(float(np.abs(vectors).max()), 1e-300)  # torch takes 1e-20 for 0
    logged = health.geometry(scaled)
    if name != "of very different lengths":  # it takes 1e-12 for 0, too
        assert found["effective_rank"].value == pytest.approx(logged["effective_rank"], rel=1e-5)
        assert found["spread"].value == pytest.approx(logged["spread"], abs=1e-9)
        effective = np.exp(-(shares * np.log(np.maximum(shares, 1e-12))).sum())
        assert found["effective_rank"].value == pytest.approx(effective, rel=1e-5)
        assert found["spread"].value == pytest.approx(rows.std(0).mean() * rows.shape[1] ** 0.5, abs=1e-9)
    if name not in ("zeros", "some zeros"):
        cosines = rows @ rows.T
        assert found["anisotropy"].value == pytest.approx(cosines[~np.eye(texts, dtype=bool)].mean(), abs=1e-12)
    assert found["collapsed"].value == float(found["spread"].value < health.COLLAPSED)
    assert {score.higher_is_better for score in found.values() if score.name != "collapsed"} == {None}
    assert found["collapsed"].higher_is_better is False
    if not directions(name)[:texts, -1].any() and name != "of very different lengths":
        assert logged["mean_cosine"] == pytest.approx(found["anisotropy"].value, abs=1e-9)


@hostile
def test_the_silhouette_is_that_of_scikit_learn(name):
    vectors = inputs(name).embeddings.astype(np.float64)
    vectors = (vectors - vectors[0]) / max(np.abs(vectors).max(), 1e-300)  # it multiplies without centring
    (score,) = measure(["silhouette"], inputs(name))
    assert score.value == pytest.approx(silhouette_score(vectors, LABELS), abs=1e-4)
    assert score.per_example == pytest.approx(silhouette_samples(vectors, LABELS), abs=1e-3)


def test_a_text_alone_in_its_class_counts_zero():
    score = measured("silhouette", [[0], [1], [4]], [0, 0, 1])["silhouette"]
    assert score.per_example == pytest.approx([3 / 4, 2 / 3, 0])
    assert score.standard_error == pytest.approx(score.per_example.std(ddof=1) / 3**0.5)
    assert measured("silhouette", [[0], [1], [4]], [0, 1, 2])["silhouette"].value == 0


@hostile
def test_many_blocks_measure_what_one_does(name, monkeypatch):
    names = ("retrieval", "knn", "uniformity", "silhouette")
    whole = measure(names, inputs(name))
    monkeypatch.setattr(geometry, "BYTES", 8 * 120 * 7)
    with parallel.thread_limit(1):
        parts = measure(names, inputs(name))
    with parallel.thread_limit(2):
        assert measure(names, inputs(name)) == parts  # to the last bit
    assert [score.name for score in parts] == [score.name for score in whole]
    close = 0.05 if name == "some zeros" else 1e-3  # exactly 1 from all others, rounded anyhow
    assert [score.value for score in parts] == pytest.approx([score.value for score in whole], abs=close)


@pytest.mark.parametrize(
    ("metrics", "labels", "why"),
    [
        (["uniformity", "anisotropy"], [0], "a single text makes no pair: give the split more texts"),
        (["silhouette"], [2, 2, 2], "all 3 texts are of one class: this score needs at least two classes; give"),
        (["alignment"], [0, 1, 2], "each of the 3 texts has its own class, so there are no positives: give the"),
        (["retrieval"], [0, 1, 2], "each of the 3 texts has its own class, so there is nothing to retrieve: add"),
    ],
)
def test_what_these_texts_cannot_have(metrics, labels, why):
    for metric in metrics:
        with pytest.raises(UserError, match=why):
            measured(metric, np.ones((len(labels), 3)), labels)
