"""R-Drop's term where its value is known."""

import math

import pytest
import torch

from contrastive.losses.rdrop import rdrop


def test_two_classes_in_closed_form():
    """p = (σ(x), σ(−x)) against q = (½, ½): the symmetrised divergence is ½ · (p₁ − ½) · x, over both classes."""
    x = 1.7
    logits = torch.tensor([[[x, 0.0], [0.0, 0.0]]], dtype=torch.float64)
    assert float(rdrop(logits)) == pytest.approx((1 / (1 + math.exp(-x)) - 0.5) * x / 2)


def test_equal_predictions_cost_nothing():
    once = torch.randn(4, 1, 3)
    logits = once.repeat(1, 2, 1).requires_grad_()
    value = rdrop(logits)
    assert float(value.detach()) == pytest.approx(0.0, abs=1e-7)
    assert torch.autograd.grad(value, logits)[0].abs().max() < 1e-6


def test_the_two_predictions_may_be_exchanged():
    logits = torch.randn(4, 2, 3, dtype=torch.float64)
    torch.testing.assert_close(rdrop(logits), rdrop(logits.flip(1)))


def test_certain_and_opposite_predictions_stay_finite():
    logits = torch.tensor([[[1000.0, -1000.0], [-1000.0, 1000.0]]], requires_grad=True)
    value = rdrop(logits)
    assert float(value.detach()) == pytest.approx(2000.0)
    assert torch.autograd.grad(value, logits)[0].isfinite().all()


def test_anything_but_two_predictions_is_refused():
    with pytest.raises(Exception, match="logits"):
        rdrop(torch.randn(4, 3, 2))
