"""VICReg against its formula as loops, and where its value is known."""

import pytest
import torch

from contrastive.losses.vicreg import EPSILON, vicreg


def loop(tensor: torch.Tensor) -> torch.Tensor:
    n, _, d = tensor.shape
    invariance = sum(((tensor[i, 0] - tensor[i, 1]) ** 2).sum() for i in range(n)) / (n * d)
    variance = covariance = 0
    for view in (0, 1):
        rows = [tensor[i, view] for i in range(n)]
        mean = sum(rows) / n
        for a in range(d):
            for b in range(d):
                c = sum((row - mean)[a] * (row - mean)[b] for row in rows) / (n - 1)
                if a == b:
                    variance = variance + torch.relu(1 - (c + EPSILON).sqrt()) / d / 2
                else:
                    covariance = covariance + c**2 / d
    return 25 * invariance + 25 * variance + covariance


@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_loop(seed, drawn, agree):
    tensor = drawn(7, 2, size=4, seed=seed)
    agree(vicreg(tensor), loop(tensor), tensor)


def test_collapse_costs_the_whole_variance_term():
    assert float(vicreg(torch.ones(5, 2, 3, dtype=torch.float64))) == pytest.approx(25 * (1 - EPSILON**0.5))


def test_equal_spread_views_have_no_loss():
    rows = 2 * torch.tensor([[1.0, 1], [1, -1], [-1, 1], [-1, -1]], dtype=torch.float64)
    assert float(vicreg(torch.stack([rows, rows], 1))) == pytest.approx(0.0, abs=1e-12)
