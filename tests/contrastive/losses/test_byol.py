"""BYOL: where its value is known, the slow projector, and the schedule of the momentum."""

import pytest
import torch

from contrastive.losses.byol import Byol


def made() -> Byol:
    torch.manual_seed(0)
    return Byol(5, projector=8, projection=6).double()


def test_a_perfect_guess_has_no_loss_and_the_opposite_one_costs_four(drawn):
    loss, tensor = made(), drawn(6, 2)
    loss.projector = loss.predictor = loss.target = torch.nn.Identity()
    assert float(loss(tensor, targets=tensor.flip(1)).detach()) == pytest.approx(0.0, abs=1e-12)
    assert float(loss(tensor, targets=-tensor.flip(1)).detach()) == pytest.approx(4.0)


def test_the_slow_projector_begins_alike_and_follows():
    loss = made()
    before = [p.clone() for p in loss.target.parameters()]
    assert all(torch.equal(a, b) for a, b in zip(before, loss.projector.parameters(), strict=True))
    with torch.no_grad():
        for parameter in loss.projector.parameters():
            parameter += 1.0
    loss.after_step(0.0)
    for slow, old in zip(loss.target.parameters(), before, strict=True):
        torch.testing.assert_close(slow, old + 0.004)
    assert not any(p.requires_grad for p in loss.target.parameters())


def test_the_momentum_rises_from_its_base_to_one():
    loss = made()
    assert [loss.decay(p) for p in (0.0, 0.5, 1.0)] == pytest.approx([0.996, 0.998, 1.0])
