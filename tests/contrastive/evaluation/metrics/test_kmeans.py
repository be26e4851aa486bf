"""k-means finds clouds, its scores are those worked out by hand, and the names of clusters do not matter."""

import itertools
import math

import numpy as np
import pytest
from sklearn.cluster import KMeans

from contrastive.evaluation.metrics.clusters import ONE_NUMBER, clusters, kmeans
from contrastive.evaluation.metrics.types import Inputs


def scores(vectors, labels) -> dict[str, float]:
    found = kmeans(Inputs(np.asarray(vectors, np.float32), np.asarray(labels), None, folds=5))
    return {score.name: score.value for score in found}


def test_one_text_in_the_wrong_cloud_by_hand():
    """Clouds of three; classes aab | bbb. Pairs: 6 together in clusters, 1 + 6 in classes, 1 + 3 in both."""
    vectors = [[0.0], [0.1], [0.2], [9.0], [9.1], [9.2]]
    found = scores(vectors, [0, 0, 1, 1, 1, 1])
    both, clusters, classes, pairs = 4, 6, 7, 15
    expected = clusters * classes / pairs
    assert found["ari"] == pytest.approx((both - expected) / ((clusters + classes) / 2 - expected))
    shares = {(0, 0): 2 / 6, (0, 1): 1 / 6, (1, 1): 3 / 6}
    of_class, of_cluster = {0: 2 / 6, 1: 4 / 6}, {0: 0.5, 1: 0.5}
    information = sum(p * math.log(p / (of_cluster[c] * of_class[k])) for (c, k), p in shares.items())
    entropy = [-sum(p * math.log(p) for p in of.values()) for of in (of_class, of_cluster)]
    assert found["nmi"] == pytest.approx(information / (sum(entropy) / 2))
    assert found["kmeans_accuracy"] == pytest.approx(5 / 6)


def test_the_matching_is_the_best_of_all():
    generator = np.random.default_rng(0)
    vectors, labels = generator.normal(size=(80, 2)).astype(np.float32), generator.integers(0, 4, 80)
    clusters = KMeans(4, n_init=10, random_state=0).fit_predict(vectors)
    best = max(np.mean(np.array(names)[clusters] == labels) for names in itertools.permutations(range(4)))
    assert scores(vectors, labels)["kmeans_accuracy"] == best


@pytest.mark.parametrize("size", [1e-20, 1e20])
def test_the_size_of_the_vectors_does_not_matter(size):
    vectors = np.random.default_rng(0).normal(size=(200, 5)).astype(np.float32)
    assert (clusters((vectors * size).astype(np.float32), 3) == clusters(vectors, 3)).mean() > 0.99


@pytest.mark.parametrize(("accuracy", "share"), [(0.55, 0.46), (0.85, 0.54), (1.0, 0.5)])
def test_what_the_unit_says_holds(accuracy, share):
    """Clusters in the line's two halves, whose texts are right in so many of a hundred cases, for either class."""
    generator = np.random.default_rng(0)
    labels = np.repeat([0, 1], [round(4000 * share), 4000 - round(4000 * share)])
    right = generator.random(4000) < accuracy
    vectors = np.where(right, labels, 1 - labels)[:, None] + 0.01 * generator.normal(size=(4000, 1))
    found = {score.name: score for score in kmeans(Inputs(vectors.astype(np.float32), labels, None, 5))}
    a = found["kmeans_accuracy"].value
    entropy = -sum(p * math.log2(p) for p in (a, 1 - a) if p)
    assert found["ari"].value == pytest.approx((2 * a - 1) ** 2, abs=0.02)
    assert found["nmi"].value == pytest.approx(1 - entropy, abs=0.02)
    assert [score.standard_error is None for score in found.values()] == [True, True, False]
    assert [score.unit for score in found.values()] == [ONE_NUMBER, ONE_NUMBER, ""]
