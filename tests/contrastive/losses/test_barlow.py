"""Barlow Twins against its formula as loops, and where its value is known."""

import pytest
import torch

from contrastive.losses.barlow import EPSILON, Barlow, barlow


def loop(tensor: torch.Tensor, redundancy: float) -> torch.Tensor:
    n, _, d = tensor.shape
    columns = []
    for view in (0, 1):
        rows = [tensor[i, view] for i in range(n)]
        mean = sum(rows) / n
        deviation = (sum((row - mean) ** 2 for row in rows) / n + EPSILON).sqrt()
        columns.append([(row - mean) / deviation for row in rows])
    total = 0
    for i in range(d):
        for j in range(d):
            correlation = sum(x[i] * y[j] for x, y in zip(*columns, strict=True)) / n
            total = total + ((1 - correlation) ** 2 if i == j else redundancy * correlation**2)
    return total


def test_it_is_the_loop(drawn, agree):
    tensor = drawn(7, 2, size=4)
    agree(barlow(tensor, 0.0051), loop(tensor, 0.0051), tensor)


def test_equal_views_of_uncorrelated_dimensions_have_no_loss():
    rows = torch.tensor([[1.0, 1], [1, -1], [-1, 1], [-1, -1]], dtype=torch.float64)
    assert float(barlow(torch.stack([rows, 3 * rows + 5], 1), 1.0)) == pytest.approx(0.0, abs=1e-8)
    assert float(barlow(torch.stack([rows, -rows], 1), 1.0)) == pytest.approx(8.0, abs=1e-3)  # (1 − −1)² twice


def test_it_is_computed_on_what_the_projector_gives(drawn):
    torch.manual_seed(0)
    loss, tensor = Barlow(4, projector=8).double(), drawn(6, 2, size=4)
    projected = torch.stack([loss.projector(tensor[:, 0]), loss.projector(tensor[:, 1])], 1)
    torch.testing.assert_close(loss(tensor, redundancy=0.01), barlow(projected, 0.01))
    assert projected.shape == (6, 2, 8) and sum(isinstance(m, torch.nn.Linear) for m in loss.modules()) == 3
