"""The judge of pictures is scikit-learn's own, where that is exact."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.manifold import TSNE

from benchmarks.pictures import affinities, divergence, judge


def test_the_divergence_is_that_of_exact_t_sne():
    vectors = np.random.default_rng(0).normal(size=(200, 10)).astype(np.float32) + 3
    model = TSNE(init="pca", random_state=0, method="exact")
    points = model.fit_transform(vectors)
    assert judge(vectors, points)["kl"] == pytest.approx(model.kl_divergence_, rel=1e-4)


def test_affinities_are_shares_and_symmetric():
    vectors = np.random.default_rng(0).normal(size=(120, 3))
    joint = affinities(vectors)
    assert joint.sum() == pytest.approx(1) and abs(joint - joint.T).max() < 1e-15


def test_a_picture_of_the_affinities_themselves_has_no_divergence_by_hand():
    """Three texts at the corners of a triangle are three points at the corners of a triangle."""
    corners = np.array([[0, 0], [1, 0], [0.5, 3**0.5 / 2]])
    even = np.full((3, 3), 1 / 6)
    np.fill_diagonal(even, 0)
    assert divergence(csr_array(even), corners) == pytest.approx(0, abs=1e-12)
