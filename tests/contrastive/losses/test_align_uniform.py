"""Alignment and uniformity as loops over pairs, and where their values are known."""

import math

import pytest
import torch

from contrastive.losses.align_uniform import align_uniform


def loop(tensor: torch.Tensor) -> torch.Tensor:
    z = [[row / (row @ row).sqrt() for row in sample] for sample in tensor]
    alignment = sum(((first - second) ** 2).sum() for first, second in z) / len(z)
    uniformity = 0
    for view in (0, 1):
        pairs = [(a, b) for i, a in enumerate(z) for b in z[:i]]
        mean = sum(torch.exp(-2 * ((a[view] - b[view]) ** 2).sum()) for a, b in pairs) / len(pairs)
        uniformity = uniformity + torch.log(mean) / 2
    return alignment + uniformity


def test_it_is_the_loop(drawn, agree):
    tensor = drawn(6, 2)
    agree(align_uniform(tensor), loop(tensor), tensor)


def test_what_is_masked_takes_no_part(drawn, agree):
    tensor = drawn(5, 2)
    mask = torch.tensor([[1, 1], [1, 0], [1, 1], [0, 1], [1, 1]], dtype=torch.bool)
    agree(align_uniform(tensor, mask=mask), align_uniform(tensor[mask.all(1)]), tensor)


def test_collapse_is_aligned_and_not_uniform():
    assert float(align_uniform(torch.ones(5, 2, 3))) == pytest.approx(0.0, abs=1e-6)


def test_two_opposite_pairs_in_closed_form():
    """Aligned, and at the squared distance 4."""
    tensor = torch.tensor([[[1.0, 0], [2.0, 0]], [[-1.0, 0], [-3.0, 0]]])
    assert float(align_uniform(tensor)) == pytest.approx(math.log(math.exp(-8)))
