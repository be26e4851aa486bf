"""Barlow Twins where its value is known, and its projector."""

import pytest
import torch

from contrastive.losses.barlow import Barlow, barlow


def test_equal_views_of_uncorrelated_dimensions_have_no_loss():
    rows = torch.tensor([[1.0, 1], [1, -1], [-1, 1], [-1, -1]], dtype=torch.float64)
    assert float(barlow(torch.stack([rows, 3 * rows + 5], 1), 1.0)) == pytest.approx(0.0, abs=1e-8)
    assert float(barlow(torch.stack([rows, -rows], 1), 1.0)) == pytest.approx(8.0, abs=1e-3)  # (1 − −1)² twice


def test_the_projector_has_three_layers_of_one_width():
    widths = [layer.out_features for layer in Barlow(4, projector=8).modules() if isinstance(layer, torch.nn.Linear)]
    assert widths == [8, 8, 8]
