"""What every entry of POSTS keeps, whatever it does to vectors."""

import numpy as np
import pytest

from contrastive.config import registry
from contrastive.config.evaluation import Evaluation
from contrastive.errors import UserError
from contrastive.evaluation.post import POSTS, fit_post

every_post = pytest.mark.parametrize("name", [*POSTS, "whiten:5"])


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
        assert made.shape == (len(other), 5 if name == "whiten:5" else 12)
        assert made.dtype == np.float32 and np.isfinite(made).all()
        assert (other == clouds(count, seed=seed)).all() and (train == clouds()).all()


@every_post
def test_collapsed_embeddings_become_zeros_or_at_least_numbers(name):
    collapsed = np.full((30, 12), 3.3, np.float32)
    collapsed[::2] = np.nextafter(collapsed[::2], 4)  # the rounding of an encoder
    made = fit_post(name, collapsed)(collapsed)
    assert np.ptp(made, 0).max() == 0 and np.isfinite(made).all()
    assert name == "flow" or (made == 0).all()


@every_post
def test_what_cannot_be_fitted(name):
    with pytest.raises(
        UserError, match=f"{name} is fitted on training embeddings; it needs at least 2, and there are 1"
    ):
        fit_post(name, clouds(1))
    broken = clouds()
    broken[3, 2], broken[5] = np.nan, np.inf
    with pytest.raises(UserError, match=f"{name}: 2 of 120 training embeddings hold NaN or infinity"):
        fit_post(name, broken)
