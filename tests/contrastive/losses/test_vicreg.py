"""VICReg where its value is known."""

import pytest
import torch

from contrastive.losses.vicreg import EPSILON, vicreg


def test_collapse_costs_the_whole_variance_term():
    assert float(vicreg(torch.ones(5, 2, 3, dtype=torch.float64))) == pytest.approx(25 * (1 - EPSILON**0.5))


def test_equal_spread_views_have_no_loss():
    rows = 2 * torch.tensor([[1.0, 1], [1, -1], [-1, 1], [-1, -1]], dtype=torch.float64)
    assert float(vicreg(torch.stack([rows, rows], 1))) == pytest.approx(0.0, abs=1e-12)
