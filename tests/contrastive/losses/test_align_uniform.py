"""Alignment and uniformity where their values are known."""

import math

import pytest
import torch

from contrastive.losses.align_uniform import align_uniform


def test_collapse_is_aligned_and_not_uniform():
    assert float(align_uniform(torch.ones(5, 2, 3))) == pytest.approx(0.0, abs=1e-6)


def test_two_opposite_pairs_in_closed_form():
    """Aligned, and at the squared distance 4."""
    tensor = torch.tensor([[[1.0, 0], [2.0, 0]], [[-1.0, 0], [-3.0, 0]]])
    assert float(align_uniform(tensor)) == pytest.approx(math.log(math.exp(-8)))
