"""Anisotropy by hand, by the SVD of torch, and as the diagnostics of training have it."""

import math

import numpy as np
import pytest
import torch

from contrastive.evaluation.metrics import measure
from contrastive.evaluation.metrics.anisotropy import COLLAPSED
from contrastive.evaluation.metrics.types import Inputs, Score
from contrastive.training import collapse
from tests.contrastive.evaluation.metrics.hostile import EMBEDDINGS, directions, inputs


def scores(vectors) -> dict[str, Score]:
    given = Inputs(np.asarray(vectors, np.float32), np.zeros(len(vectors), np.int64), None, folds=5)
    return {score.name: score for score in measure(["anisotropy"], given)}


def test_by_hand():
    """Two lengths each way along one axis, one each along the other: shares √4 and √2 of their sum, no mean."""
    found = scores([[1, 0], [3, 0], [-1, 0], [-2, 0], [0, 1], [0, -5]])
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
    directions = {name: score.higher_is_better for name, score in found.items()}
    assert directions.pop("collapsed") is False and set(directions.values()) == {None}
    assert {score.count for score in found.values()} == {6}


@pytest.mark.parametrize("name", EMBEDDINGS)
@pytest.mark.parametrize("texts", [120, 20])  # more than dimensions, and fewer
def test_it_is_the_svd_and_what_training_logs(name, texts):
    vectors = inputs(name).embeddings[:texts]
    found = scores(vectors)
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
    found = scores(vectors)["effective_rank"].value
    exact = collapse.geometry(torch.tensor(vectors.astype(np.float32)))["effective_rank"]
    assert found == pytest.approx(exact, rel=1e-6)


def test_the_alarm_is_that_of_training():
    assert COLLAPSED == collapse.COLLAPSED
    generator = np.random.default_rng(0)
    scattered, noise = generator.normal(size=(200, 50)), generator.normal(size=(200, 50))
    assert scores(scattered)["spread"].value == pytest.approx(1, abs=0.02)
    assert scores(scattered)["collapsed"].value == 0
    assert [scores(1 + width * noise)["collapsed"].value for width in (0.2, 0.05)] == [0, 1]
    assert scores(np.ones((5, 3)))["effective_rank"].value == pytest.approx(1)
