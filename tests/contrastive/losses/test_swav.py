"""SwAV: codes share a text, stay finite, and the prototypes are frozen at first."""

import pytest
import torch

from contrastive.losses.swav import RESTING, Swav, codes


def scores(seed: int) -> torch.Tensor:
    return torch.rand(8, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 2 - 1


def test_the_codes_of_a_text_add_to_one():
    assert codes(scores(0)).sum(1) == pytest.approx(torch.ones(8).numpy())


def test_codes_of_long_scores_stay_finite():
    assert codes(scores(0) * 1000).isfinite().all()


@pytest.mark.parametrize(("steps", "resting"), [(100, RESTING), (4, 1), (20, 2)])
def test_the_prototypes_rest_at_first_and_then_train(steps: int, resting: int, drawn):
    torch.manual_seed(0)
    loss = Swav(5, projector=8, projection=4, prototypes=6).double().train()
    moved = []
    for step in range(min(steps, RESTING + 2)):
        loss.zero_grad()
        loss(drawn(8, 2)).backward()
        moved.append(loss.prototypes.weight.grad is not None and bool(loss.prototypes.weight.grad.any()))
        loss.after_step((step + 1) / steps)
    assert moved == [False] * resting + [True] * (len(moved) - resting)
    assert "steps" in loss.state_dict()
