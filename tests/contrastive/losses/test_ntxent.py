"""NT-Xent against pytorch-metric-learning, and against the double loop where there are more than two views."""

import math

import pytest
import torch
from pytorch_metric_learning.losses import NTXentLoss, SelfSupervisedLoss

from contrastive.losses.ntxent import ntxent, ntxent_floor
from contrastive.losses.supcon import supcon


@pytest.mark.parametrize("temperature", [0.05, 0.1, 0.5])
def test_it_is_that_of_pytorch_metric_learning(temperature, drawn, agree):
    tensor = drawn(7, 2)
    theirs = SelfSupervisedLoss(NTXentLoss(temperature=temperature))(tensor[:, 0], tensor[:, 1])
    agree(ntxent(tensor, temperature=temperature), theirs, tensor)


def test_with_more_views_it_is_supcon_of_every_sample_for_itself(drawn, agree):
    tensor = drawn(4, 3)
    mask = torch.tensor([[1, 1, 1], [1, 0, 1], [0, 1, 0], [0, 0, 0]], dtype=torch.bool)
    expected = supcon(tensor, labels=torch.arange(4), mask=mask, temperature=0.2)
    agree(ntxent(tensor, mask=mask, temperature=0.2), expected, tensor)


def test_equal_vectors_give_the_logarithm_of_the_number_of_candidates():
    assert float(ntxent(torch.ones(4, 2, 3, dtype=torch.float64))) == pytest.approx(math.log(7))


def test_the_floor_grows_with_the_views():
    assert float(ntxent_floor(torch.tensor([0, 0]), torch.ones(2, 2, dtype=torch.bool))) == 0.0
    assert float(ntxent_floor(torch.tensor([0, 0]), torch.ones(2, 4, dtype=torch.bool))) == pytest.approx(math.log(3))
