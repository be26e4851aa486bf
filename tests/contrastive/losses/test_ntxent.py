"""NT-Xent where its value is known, and its floor."""

import math

import pytest
import torch

from contrastive.losses.ntxent import ntxent
from contrastive.losses.similarity import least


def test_equal_vectors_give_the_logarithm_of_the_number_of_candidates():
    assert float(ntxent(torch.ones(4, 2, 3, dtype=torch.float64))) == pytest.approx(math.log(7))


def test_the_floor_grows_with_the_views():
    assert float(least("text", torch.tensor([0, 0]), torch.ones(2, 2, dtype=torch.bool))) == 0.0
    assert float(least("text", torch.tensor([0, 0]), torch.ones(2, 4, dtype=torch.bool))) == pytest.approx(math.log(3))
