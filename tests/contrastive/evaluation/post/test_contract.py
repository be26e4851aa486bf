"""What every entry of POSTS keeps, whatever it does to vectors; whitening and standardising by other code."""

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from contrastive.config import registry
from contrastive.config.evaluation import Evaluation
from contrastive.errors import UserError
from contrastive.evaluation.post import POSTS, fit_post

FITTED = [*(name for name in POSTS if name != "first"), "whiten:5"]
every_post = pytest.mark.parametrize("name", [*FITTED, "first:5"])


def clouds(texts: int = 120, size: int = 12, seed: int = 0) -> np.ndarray:
    """Correlated vectors away from zero, one cloud for all seeds."""
    mixing = np.random.default_rng(7).normal(size=(size, size))
    return (np.random.default_rng(seed).normal(size=(texts, size)) @ mixing + 5).astype(np.float32)


@every_post
def test_any_vectors_become_finite_ones_of_one_width_and_are_left_as_they_were(name):
    assert Evaluation(post=(name,)).post == (name,)
    assert name.partition(":")[0] in registry.entries("contrastive.evaluation.post", "POSTS")
    train = clouds()
    apply = fit_post(name, train)
    for count, seed in ((7, 1), (1, 2), (0, 0)):
        other = clouds(count, seed=seed)
        made = apply(other)
        assert made.shape == (len(other), 5 if name.endswith(":5") else 12)
        assert made.dtype == np.float32 and np.isfinite(made).all()
        assert (other == clouds(count, seed=seed)).all() and (train == clouds()).all()


def test_first_numbers_are_kept_and_no_more_than_there_are():
    assert (fit_post("first:5", clouds())(clouds(9)) == clouds(9)[:, :5]).all()
    with pytest.raises(UserError, match="first:13 keeps 13 columns, but the embeddings have 12"):
        fit_post("first:13", clouds())


@pytest.mark.parametrize("name", FITTED)
def test_collapsed_embeddings_become_zeros_or_at_least_numbers(name):
    collapsed = np.full((30, 12), 3.3, np.float32)
    collapsed[::2] = np.nextafter(collapsed[::2], 4)  # the rounding of an encoder
    made = fit_post(name, collapsed)(collapsed)
    assert np.ptp(made, 0).max() == 0 and np.isfinite(made).all()
    assert name == "flow" or (made == 0).all()


@every_post
def test_what_cannot_be_fitted(name):
    with pytest.raises(
        UserError, match=f"{name} is fitted on training embeddings and needs at least 2, but there are 1"
    ):
        fit_post(name, clouds(1))
    broken = clouds()
    broken[3, 2], broken[5] = np.nan, np.inf
    with pytest.raises(UserError, match=f"{name}: 2 of 120 training embeddings contain NaN or infinity"):
        fit_post(name, broken)


def test_standardised_vectors_are_those_of_scikit_learn():
    apply, other = fit_post("standardise", clouds()), clouds(9, seed=1)
    assert apply(other) == pytest.approx(StandardScaler().fit(clouds()).transform(other), abs=1e-4)


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


def test_more_columns_than_dimensions():
    with pytest.raises(UserError, match="whiten:13 keeps 13 columns, but the embeddings have 12 dimensions.*whiten:12"):
        fit_post("whiten:13", clouds())
