"""Restarts that run together give the clusters of scikit-learn's KMeans."""

import numpy as np
import pytest
from sklearn.cluster import KMeans, kmeans_plusplus

from contrastive.evaluation import parallel
from contrastive.evaluation.metrics import lloyd
from contrastive.evaluation.metrics.lloyd import centred, clusters, fill_empty, starts


def within(vectors: np.ndarray, labels: np.ndarray) -> float:
    exact = vectors.astype(np.float64)
    return sum(((exact[labels == k] - exact[labels == k].mean(0)) ** 2).sum() for k in np.unique(labels))


def clouds(seed: int, count: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    texts, size = int(generator.integers(60, 2000)), int(generator.integers(1, 60))
    centres = generator.normal(size=(count, size)) * generator.choice([0.3, 1, 3])
    return (centres[generator.integers(0, count, texts)] + generator.normal(size=(texts, size)) + 1).astype(np.float32)


def test_two_pairs_by_hand():
    labels = clusters(np.array([[0.0], [1.0], [10.0], [11.0]], np.float32), 2)
    assert labels[0] == labels[1] != labels[2] == labels[3]


@pytest.mark.parametrize("count", [2, 3, 5, 20])
@pytest.mark.parametrize("seed", range(5))
def test_no_worse_than_scikit_learn(seed, count):
    vectors = clouds(seed, count)
    theirs = KMeans(count, n_init=10, random_state=0).fit_predict(vectors)
    assert within(vectors, clusters(vectors, count)) <= within(vectors, theirs) * (1 + 1e-5)


def test_the_labels_are_those_of_scikit_learn():
    equal = [
        (
            clusters(clouds(seed, count), count)
            == KMeans(count, n_init=10, random_state=0).fit_predict(clouds(seed, count))
        ).all()
        for seed in range(5)
        for count in (2, 3, 5)
    ]
    assert sum(equal) >= 10  # rounding, which threads change in theirs, may lead a restart elsewhere


@pytest.mark.parametrize("count", [1, 2, 7])
def test_starts_are_drawn_as_by_scikit_learn(count):
    points, generator = centred(clouds(0, 7)), np.random.RandomState(0)
    theirs = [kmeans_plusplus(points, count, random_state=generator)[0] for _ in range(lloyd.RESTARTS)]
    assert (starts(points, count) == np.stack(theirs)).all()


@pytest.mark.parametrize("count", [2, 3, 20])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_fewer_distinct_points_than_clusters(count):
    for vectors in (np.ones((30, 4)), np.repeat(np.eye(4), 5, 0) * 0.1):
        points = vectors.astype(np.float32)
        ours, theirs = clusters(points, count), KMeans(count, n_init=10, random_state=0).fit_predict(points)
        assert within(points, ours) == pytest.approx(within(points, theirs), abs=1e-9)
        assert len(np.unique(ours)) == len(np.unique(theirs))


def test_a_cluster_without_points_gets_the_farthest_one_by_hand():
    points = np.array([[0.0], [1.0], [8.0]], np.float32)
    sums, sizes, centres = np.array([[9.0], [0.0]]), np.array([3.0, 0.0]), np.array([[2.0], [50.0]])
    fill_empty(points, np.array([0, 0, 0]), sums, sizes, centres)
    assert sums.tolist() == [[1.0], [8.0]] and sizes.tolist() == [2.0, 1.0]


def test_where_all_points_lie_on_their_centre_none_is_moved_by_hand():
    sums, sizes, centres = np.array([[6.0], [0.0]]), np.array([3.0, 0.0]), np.array([[2.0], [2.0]])
    fill_empty(np.full((3, 1), 2.0, np.float32), np.array([0, 0, 0]), sums, sizes, centres)
    assert sums.tolist() == [[6.0], [0.0]] and sizes.tolist() == [3.0, 0.0]


@pytest.mark.parametrize("size", [1e-20, 1e20])
def test_the_size_of_the_vectors_does_not_matter(size):
    vectors = clouds(1, 3)
    assert (clusters((vectors * size).astype(np.float32), 3) == clusters(vectors, 3)).mean() > 0.99


def test_a_common_mean_does_not_matter():
    vectors = clouds(1, 3)
    assert (clusters(vectors + np.float32(1000), 3) == clusters(vectors, 3)).mean() > 0.99


def test_the_same_bits_with_one_thread_and_two():
    vectors, found = clouds(2, 5), []
    for count in (1, 2, 2):
        with parallel.threads(count):
            found.append((starts(centred(vectors), 5), clusters(vectors, 5)))
    assert all((a == b).all() for other in found[1:] for a, b in zip(other, found[0], strict=True))
