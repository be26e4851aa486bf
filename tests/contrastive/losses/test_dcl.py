"""DCL and DCLW where their values are known."""

import math

import pytest
import torch

from contrastive.losses.dcl import dcl
from contrastive.losses.dclw import dclw


def test_pairs_that_agree_alike_weigh_alike(drawn, agree):
    tensor = drawn(5, 1).expand(5, 2, 5)
    torch.testing.assert_close(dclw(tensor), dcl(tensor), atol=1e-12, rtol=0)


def test_equal_vectors_give_the_logarithm_of_the_negatives_less_the_similarity():
    assert float(dcl(torch.ones(4, 2, 3, dtype=torch.float64))) == pytest.approx(math.log(6), abs=1e-9)
