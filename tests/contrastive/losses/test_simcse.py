"""SimCSE's one-way loss against a second package, and where it differs from NT-Xent."""

import math

import pytest
import torch
from pytorch_metric_learning.losses import NTXentLoss, SelfSupervisedLoss

from contrastive.losses.ntxent import ntxent
from contrastive.losses.simcse import simcse


def test_it_is_the_one_way_half_of_pytorch_metric_learning(drawn):
    """Which has N candidates an anchor, not the 2N − 1 of NT-Xent."""
    tensor = drawn(6, 2).detach()
    theirs = SelfSupervisedLoss(NTXentLoss(temperature=0.1), symmetric=False)(tensor[:, 0], tensor[:, 1])
    ours = simcse(tensor, temperature=0.1)
    assert float(ours) == pytest.approx(float(theirs), abs=1e-8)
    assert float(ours) < float(ntxent(tensor, temperature=0.1))


def test_equal_vectors_give_the_logarithm_of_the_batch():
    assert float(simcse(torch.ones(4, 2, 3, dtype=torch.float64))) == pytest.approx(math.log(4))
