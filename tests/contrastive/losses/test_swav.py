"""SwAV: codes share a text, stay finite, and the prototypes are frozen at first."""

import pytest
import torch

from contrastive.losses.swav import FROZEN, Swav, codes


def scores(seed: int) -> torch.Tensor:
    return torch.rand(8, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 2 - 1


def test_the_codes_of_a_text_add_to_one():
    assert codes(scores(0)).sum(1) == pytest.approx(torch.ones(8).numpy())


def test_codes_of_long_scores_stay_finite():
    assert codes(scores(0) * 1000).isfinite().all()


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
