"""SwAV: Sinkhorn's codes against the plain iterations, the swapped prediction as a loop, prototypes frozen at first."""

import pytest
import torch

from contrastive.losses.swav import FROZEN, Swav, codes, swapped


def sinkhorn(scores: torch.Tensor) -> torch.Tensor:
    """The iterations as they are published: on e^{s/ε}, columns are samples."""
    q = torch.exp(scores / 0.05).T
    q = q / q.sum()
    prototypes, samples = q.shape
    for _ in range(3):
        q = q / q.sum(1, keepdim=True) / prototypes
        q = q / q.sum(0, keepdim=True) / samples
    return (q * samples).T


def scores(seed: int) -> torch.Tensor:
    return torch.rand(8, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 2 - 1


def test_codes_are_those_of_the_plain_iterations():
    torch.testing.assert_close(codes(scores(0)), sinkhorn(scores(0)), atol=1e-10, rtol=1e-10)
    assert codes(scores(0)).sum(1) == pytest.approx(torch.ones(8).numpy())


def test_codes_of_long_scores_stay_finite():
    assert codes(scores(0) * 1000).isfinite().all()


def test_each_view_predicts_the_code_of_the_other():
    first, second = scores(0).requires_grad_(), scores(1)
    logs = [torch.log_softmax(s / 0.1, 1) for s in (first, second)]
    expected = -sum(
        sinkhorn(first.detach())[i] @ logs[1][i] + sinkhorn(second)[i] @ logs[0][i] for i in range(8)
    ) / 16  # fmt: skip
    torch.testing.assert_close(swapped(first, second, 0.1), expected)


def test_the_prototypes_rest_at_first_and_then_train(drawn):
    torch.manual_seed(0)
    loss = Swav(5, projector=8, projection=4, prototypes=6).double().train()
    moved = []
    for _ in range(FROZEN + 2):
        loss.zero_grad()
        loss(drawn(8, 2)).backward()
        moved.append(loss.prototypes.weight.grad is not None and bool(loss.prototypes.weight.grad.any()))
    assert moved == [False] * FROZEN + [True] * 2
    assert int(loss.state_dict()["calls"]) == FROZEN + 2
