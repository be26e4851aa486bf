"""Measures of all pairs: alignment, uniformity, anisotropy, silhouette, and the distances that they read.

By hand, and on hostile embeddings by SciPy, scikit-learn, the SVD and what training logs.
"""

import math

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist, pdist
from sklearn.metrics import silhouette_samples, silhouette_score

from contrastive.errors import UserError
from contrastive.evaluation import parallel
from contrastive.evaluation.metrics import measure, pairs
from contrastive.evaluation.metrics.anisotropy import COLLAPSED
from contrastive.evaluation.metrics.types import Inputs, Score
from contrastive.training import collapse
from tests.contrastive.evaluation.metrics.hostile import EMBEDDINGS, LABELS, directions, inputs

hostile = pytest.mark.parametrize("name", EMBEDDINGS)


def measured(metric: str, vectors, labels=None) -> dict[str, Score]:
    rows = np.asarray(vectors, np.float32)
    given = Inputs(rows, np.zeros(len(rows), np.int64) if labels is None else np.asarray(labels), None, folds=5)
    return {score.name: score for score in measure([metric], given)}


def test_alignment_by_hand():
    """A class of three on the axes, whose pairs are √2, √2 and 2 apart; one of two in one direction; one of one."""
    vectors = [[3, 0], [0, 0.5], [-1, 0], [1, 1], [2, 2], [5, 6]]
    score = measured("alignment", vectors, [7, 7, 7, 1, 1, 3])["alignment_class"]
    assert (score.count, score.higher_is_better, score.value) == (5, False, pytest.approx((2 + 2 + 4 + 0) / 4))


@hostile
def test_alignment_and_uniformity_are_means_over_all_pairs(name):
    classes = (directions(name)[label == LABELS, :-1] for label in np.unique(LABELS))
    apart = np.concatenate([pdist(rows, "sqeuclidean") for rows in classes])
    alignment, uniformity = measure(["alignment", "uniformity"], inputs(name))
    assert alignment.value == pytest.approx(apart.mean(), rel=1e-7, abs=1e-28)
    expected = math.log(np.exp(-2 * pdist(directions(name), "sqeuclidean")).mean())
    assert uniformity.value == pytest.approx(expected, rel=2e-5, abs=2e-7)


def test_alignment_of_a_text_through_two_dropouts():
    """A right angle, the same direction, and 60 degrees: 2, 0 and 1."""
    twice = np.array([[[1, 0], [0, 3]], [[1, 1], [2, 2]], [[1, 0], [0.5, 0.75**0.5]]], np.float32)
    vectors = np.ones((5, 2), np.float32)
    found = measure(["alignment"], Inputs(vectors, np.zeros(5, np.int64), None, 5, twice))
    assert [score.name for score in found] == ["alignment_class", "alignment_dropout"]
    score = found[1]
    assert score.each == pytest.approx([2, 0, 1], abs=1e-6) and score.each.dtype == np.float32
    assert (score.count, score.higher_is_better, score.value) == (3, False, pytest.approx(1))
    assert score.standard_error == pytest.approx(1 / 3**0.5, rel=1e-6)


def test_uniformity_by_hand():
    """Two texts at a right angle, of any length, are √2 apart; a third is opposite the first: 2, and √2."""
    score = measured("uniformity", [[3, 0], [0, 0.5], [-1, 0]])["uniformity"]
    assert (score.count, score.higher_is_better) == (3, False)
    assert score.value == pytest.approx(math.log((2 * math.exp(-4) + math.exp(-8)) / 3), rel=1e-6)
    scattered = np.random.default_rng(0).normal(size=(300, 500))  # random directions are near the best, −4
    assert measured("uniformity", scattered)["uniformity"].value == pytest.approx(-4, abs=0.05)
    assert measured("uniformity", np.full((120, 33), 0.1))["uniformity"].value == pytest.approx(0, abs=1e-12)


def test_anisotropy_by_hand():
    """Two lengths each way along one axis, one each along the other: shares √4 and √2 of their sum, no mean."""
    found = measured("anisotropy", [[1, 0], [3, 0], [-1, 0], [-2, 0], [0, 1], [0, -5]])
    shares = np.array([2, 2**0.5]) / (2 + 2**0.5)
    values = {name: score.value for name, score in found.items()}
    assert values == pytest.approx({
        "anisotropy": (1 + 1 - 4 - 1) / 15,  # of 15 pairs 2 lie one way, 5 opposite, 8 at a right angle
        "effective_rank": math.exp(-(shares * np.log(shares)).sum()),
        "top_singular_share": shares[0],
        "spread": ((4 / 6) ** 0.5 + (2 / 6) ** 0.5) / 2 * 2**0.5,
        "collapsed": 0.0,
    })  # fmt: skip
    assert found["top_singular_share"].each == pytest.approx(shares)
    better = {name: score.higher_is_better for name, score in found.items()}
    assert better.pop("collapsed") is False and set(better.values()) == {None}
    assert {score.count for score in found.values()} == {6}


@hostile
@pytest.mark.parametrize("texts", [120, 20])  # more than dimensions, and fewer
def test_anisotropy_is_the_svd_and_what_training_logs(name, texts):
    vectors = inputs(name).embeddings[:texts]
    found = measured("anisotropy", vectors)
    rows = directions(name)[:texts, :-1]
    singular = np.linalg.svd(rows - rows.mean(0), compute_uv=False)
    shares = singular / max(singular.sum(), 1e-6)
    assert found["top_singular_share"].each[: len(shares)] == pytest.approx(shares, abs=1e-6)
    scaled = torch.tensor(vectors).double() / max(float(np.abs(vectors).max()), 1e-300)  # torch takes 1e-20 for 0
    logged = collapse.geometry(scaled)
    if name != "of very different lengths":  # it takes 1e-12 for 0, too
        assert found["effective_rank"].value == pytest.approx(logged["effective_rank"], rel=1e-5)
        assert found["spread"].value == pytest.approx(logged["spread"], abs=1e-9)
    if name not in ("zeros", "some zeros"):
        cosines = rows @ rows.T
        assert found["anisotropy"].value == pytest.approx(cosines[~np.eye(texts, dtype=bool)].mean(), abs=1e-12)
    assert found["collapsed"].value == float(found["spread"].value < 0.1)


def test_dimensions_that_nothing_uses_add_nothing():
    generator = np.random.default_rng(0)
    vectors = generator.integers(-50, 50, (1000, 2)) @ generator.integers(-9, 10, (2, 200))  # exact in float32
    exact = collapse.geometry(torch.tensor(vectors.astype(np.float32)))["effective_rank"]
    assert measured("anisotropy", vectors)["effective_rank"].value == pytest.approx(exact, rel=1e-6)


def test_the_alarm_is_that_of_training():
    assert COLLAPSED == collapse.COLLAPSED
    scattered, noise = np.random.default_rng(0).normal(size=(2, 200, 50))
    found = [measured("anisotropy", vectors) for vectors in (scattered, 1 + 0.2 * noise, 1 + 0.05 * noise)]
    assert found[0]["spread"].value == pytest.approx(1, abs=0.02)
    assert [scores["collapsed"].value for scores in found] == [0, 0, 1]
    assert measured("anisotropy", np.ones((5, 3)))["effective_rank"].value == pytest.approx(1)


def test_the_silhouette_by_hand():
    """On a line: 0 and 1 of one class, 4 and 7 of the other. For 0: a = 1, b = (4 + 7)/2; for 4: a = 3, b = 3.5 …"""
    score = measured("silhouette", [[0], [1], [4], [7]], [0, 0, 1, 1])["silhouette"]
    each = [(5.5 - 1) / 5.5, (4.5 - 1) / 4.5, (3.5 - 3) / 3.5, (6.5 - 3) / 6.5]
    assert score.each == pytest.approx(each, rel=1e-5)
    assert (score.count, score.higher_is_better, score.value) == (4, True, pytest.approx(np.mean(each), rel=1e-5))
    assert score.standard_error == pytest.approx(np.std(each, ddof=1) / 2, rel=1e-5)
    lonely = measured("silhouette", [[0], [1], [4]], [0, 0, 1])["silhouette"]  # alone in its class, it counts nothing
    assert lonely.each == pytest.approx([3 / 4, 2 / 3, 0], rel=1e-5)
    assert measured("silhouette", [[0], [1], [4]], [0, 1, 2])["silhouette"].value == 0


@hostile
def test_the_silhouette_is_that_of_scikit_learn(name):
    vectors = inputs(name).embeddings.astype(np.float64)
    vectors = (vectors - vectors[0]) / max(np.abs(vectors).max(), 1e-300)  # it multiplies without centring
    (score,) = measure(["silhouette"], inputs(name))
    assert score.value == pytest.approx(silhouette_score(vectors, LABELS), abs=1e-4)
    assert score.each == pytest.approx(silhouette_samples(vectors, LABELS), abs=1e-3)


def test_the_silhouette_of_many_small_classes():
    generator = np.random.default_rng(0)
    labels = generator.permutation(np.repeat(np.arange(70), 3))
    vectors = generator.normal(size=(210, 5))
    expected = silhouette_score(vectors, labels)
    assert measured("silhouette", vectors, labels)["silhouette"].value == pytest.approx(expected, abs=1e-5)


@hostile
def test_directions_have_the_cosines_of_a_loop(name):
    expected = cdist(directions(name), directions(name), "sqeuclidean")
    (found,) = pairs.over_blocks(lambda _, apart: apart.copy(), pairs.unit_rows(inputs(name).embeddings))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize(("bytes_", "threads"), [(2**24, 1), (8 * 120 * 7, 1), (8 * 120 * 7, 2), (1, 2)])
def test_every_row_is_seen_once_beside_all(bytes_, threads, monkeypatch):
    monkeypatch.setattr(pairs, "BYTES", bytes_)
    vectors, seen = inputs("clouds").embeddings.astype(np.float64), np.zeros((120, 120))

    def look(rows, apart):
        seen[rows] += apart

    with parallel.threads(threads):
        pairs.over_blocks(look, vectors)
    np.testing.assert_allclose(seen, cdist(vectors, vectors, "sqeuclidean"), atol=1e-12)


@hostile
def test_many_blocks_measure_what_one_does(name, monkeypatch):
    names = ("retrieval", "knn", "uniformity", "silhouette")
    whole = measure(names, inputs(name))
    monkeypatch.setattr(pairs, "BYTES", 8 * 120 * 7)
    with parallel.threads(1):
        parts = measure(names, inputs(name))
    with parallel.threads(2):
        assert measure(names, inputs(name)) == parts  # to the last bit
    assert [score.name for score in parts] == [score.name for score in whole]
    close = 0.05 if name == "some zeros" else 1e-3  # exactly 1 from all others, rounded anyhow
    assert [score.value for score in parts] == pytest.approx([score.value for score in whole], abs=close)


@pytest.mark.parametrize(
    ("metrics", "labels", "why"),
    [
        (["uniformity", "anisotropy"], [0], "one text has no other to be compared with: give the split more texts"),
        (["silhouette"], [2, 2, 2], "all 3 texts are of one class, which can be told from no other: give"),
        (["alignment"], [0, 1, 2], "each of the 3 texts is of a class of its own: there are no positives; give the"),
        (["retrieval"], [0, 1, 2], "each of the 3 texts is of a class of its own: there is none to retrieve; give"),
    ],
)
def test_what_these_texts_cannot_have(metrics, labels, why):
    for metric in metrics:
        with pytest.raises(UserError, match=why):
            measured(metric, np.ones((len(labels), 3)), labels)
