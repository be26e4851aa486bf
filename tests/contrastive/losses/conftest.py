"""What the tests of single losses share: vectors to try, and the comparison of value and gradient."""

from collections.abc import Callable

import pytest
import torch

Agree = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], None]
Drawn = Callable[..., torch.Tensor]


@pytest.fixture
def drawn() -> Drawn:
    def draw(samples: int, views: int, size: int = 5, seed: int = 0) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(samples, views, size, generator=generator, dtype=torch.float64).requires_grad_()

    return draw


@pytest.fixture
def agree() -> Agree:
    """Value and gradient to 1e-8, in float64."""

    def check(value: torch.Tensor, expected: torch.Tensor, tensor: torch.Tensor) -> None:
        torch.testing.assert_close(value, expected, atol=1e-8, rtol=1e-8)
        ours, theirs = (torch.autograd.grad(it, tensor, retain_graph=True)[0] for it in (value, expected))
        torch.testing.assert_close(ours, theirs, atol=1e-8, rtol=1e-8)

    return check
