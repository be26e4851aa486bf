"""Whitening and standardising, where their results are known."""

import numpy as np
import pytest

from contrastive.errors import UserError
from contrastive.evaluation.post import fit_post
from tests.contrastive.evaluation.post.test_contract import clouds


def test_a_cross_by_hand():
    """Mean (1, 1), covariance diag(8/3, 2/3): the first column is the first direction by √(8/3), up to its sign."""
    train = np.array([[3, 1], [-1, 1], [1, 2], [1, 0]], np.float32)
    assert np.abs(fit_post("whiten", train)(train)) == pytest.approx(
        np.array([[1.5, 0], [1.5, 0], [0, 1.5], [0, 1.5]]) ** 0.5, abs=1e-6
    )
    assert fit_post("standardise", train)(train) == pytest.approx(
        np.array([[1, 0], [-1, 0], [0, 1], [0, -1]]) * 2**0.5, abs=1e-6
    )
    assert fit_post("standardise", train)(np.array([[1, 3]], np.float32)) == pytest.approx(np.array([[0, 8**0.5]]))


def test_whitened_training_vectors_have_the_identity_as_covariance():
    train = clouds(120, 20)
    made = fit_post("whiten", train)(train).astype(np.float64)
    assert np.cov(made.T) == pytest.approx(np.eye(20), abs=1e-5)
    assert made.mean(0) == pytest.approx(np.zeros(20), abs=1e-5)
    assert fit_post("whiten:6", train)(train) == pytest.approx(made[:, :6])
    distances = ((made[:, None] - made[None]) ** 2).sum(-1)  # Mahalanobis's, whatever the signs and the order
    inverse = np.linalg.inv(np.cov(train.astype(np.float64).T))
    apart = (train[:, None] - train[None]).astype(np.float64)
    assert distances == pytest.approx(np.einsum("ijk,kl,ijl->ij", apart, inverse, apart), rel=1e-3, abs=1e-3)


def test_the_first_columns_are_those_of_the_largest_variance():
    train = clouds(300, 8)
    variances = np.linalg.eigvalsh(np.cov(train.astype(np.float64).T))[::-1]
    made = fit_post("whiten:3", train)(train).astype(np.float64)
    centred = train - train.mean(0, dtype=np.float64)
    weights = np.linalg.lstsq(made, centred, rcond=None)[0]
    assert (weights**2).sum(1) == pytest.approx(variances[:3], rel=1e-3)


@pytest.mark.parametrize("name", ["whiten", "whiten:10"])
def test_fewer_texts_than_dimensions(name):
    """Five texts span four directions; the other columns are zeros, also for vectors that lie outside of these."""
    train = clouds(5, 12)
    apply = fit_post(name, train)
    made, held_out = apply(train).astype(np.float64), apply(clouds(40, 12, seed=1))
    assert np.cov(made.T)[:4, :4] == pytest.approx(np.eye(4), abs=1e-4)
    assert (made[:, 4:] == 0).all() and (held_out[:, 4:] == 0).all()
    assert np.abs(held_out).max() < 1e3


@pytest.mark.parametrize("name", ["whiten", "standardise"])
def test_a_dimension_that_never_varies_in_training_counts_nothing(name):
    train, other = clouds(), clouds(10, seed=1)
    train[:, 4] = 1e4 + np.arange(120) % 2 * 1e-3  # as far apart as float32 can tell
    other[:, 4] = 1e4 + 1
    made = fit_post(name, train)(other)
    assert np.abs(made).max() < 10
    assert (made == 0).all(0).sum() == 1


def test_two_equal_dimensions_are_one_direction():
    train = clouds()
    train[:, 3] = train[:, 2]
    assert (fit_post("whiten", train)(train) == 0).all(0).tolist() == [False] * 11 + [True]


def test_more_columns_than_dimensions():
    with pytest.raises(UserError, match="whiten:13 keeps 13 columns, and the embeddings have 12 dimensions.*whiten:12"):
        fit_post("whiten:13", clouds())
