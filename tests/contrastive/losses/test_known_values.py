"""The floors of losses, and what those with weights or a queue keep. A new loss has a file of its own.

That a loss is its formula, tests/contrastive/losses/oracles.py says.
"""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.errors import UserError
from contrastive.losses.projected import FROZEN_STEPS, Byol, Moco, Sccl, Swav
from contrastive.losses.similarity import least
from contrastive.losses.supcon import supcon


def double(rows: list) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def drawn(samples: int, views: int, size: int = 5, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(samples, views, size, generator=generator, dtype=torch.float64).requires_grad_()


@pytest.mark.parametrize("views", [1, 2, 5])
def test_collapsed_and_separated_classes_reach_the_floor(views: int):
    labels = torch.tensor([0, 0, 0, 1, 1, 1])
    tensor = double([[1, 0], [-1, 0]])[labels][:, None].expand(6, views, 2)
    floor = float(least("class", labels, torch.ones(6, views, dtype=torch.bool)))
    assert floor == pytest.approx(math.log(3 * views - 1))
    assert float(supcon(tensor, labels=labels, temperature=0.01)) == pytest.approx(floor, abs=1e-6)


def test_the_floor_counts_only_kept_vectors_and_anchors_with_positives():
    labels = torch.tensor([0, 0, 1])
    mask = torch.tensor([[True, True], [True, False], [True, False]])  # three of class 0, a lonely one of class 1
    assert float(least("class", labels, mask)) == pytest.approx(math.log(2))
    assert float(least("class", labels, torch.zeros(3, 2, dtype=torch.bool))) == 0.0
    for views in (2, 4):  # of a text, whose own views are all its positives
        floor = least("text", torch.tensor([0, 0]), torch.ones(2, views, dtype=torch.bool))
        assert float(floor) == pytest.approx(math.log(views - 1))


def test_the_centres_of_sccl_begin_where_k_means_puts_them():
    loss = Sccl(2, clusters=2)
    loss.begin(torch.tensor([[0.0, 0], [0, 2], [10, 0], [10, 2]]))
    found = sorted(loss.centres.tolist())
    assert [math.dist(a, b) for a, b in zip(found, [[0, 1], [10, 1]], strict=True)] == pytest.approx([0, 0], abs=1e-5)
    assert loss.centres.requires_grad
    with pytest.raises(UserError, match="sccl has 5 clusters, but there are only 4 training texts"):
        Sccl(3).begin(torch.randn(4, 3))


def test_the_slow_projector_of_byol_begins_alike_and_follows_by_a_momentum_that_rises():
    byol = Byol(5, projector=8, projection=6).double()
    before = [p.clone() for p in byol.target.parameters()]
    assert all(torch.equal(a, b) for a, b in zip(before, byol.projector.parameters(), strict=True))
    with torch.no_grad():
        for parameter in byol.projector.parameters():
            parameter += 1.0
    byol.after_step(0.0)
    for slow, old in zip(byol.target.parameters(), before, strict=True):
        torch.testing.assert_close(slow, old + 0.004)
    assert not any(p.requires_grad for p in byol.target.parameters())
    assert [byol.decay(done) for done in (0.0, 0.5, 1.0)] == pytest.approx([0.996, 0.998, 1.0])


def test_the_first_batch_of_moco_has_no_negatives_and_the_next_one_has_its_keys():
    loss, tensor, targets = Moco(5, queue=16).double(), drawn(4, 2), drawn(4, 2, seed=1)
    assert float(loss(tensor, targets=targets).detach()) == 0.0
    assert torch.equal(loss.keys[:4], F.normalize(targets[:, 1], dim=-1)) and int(loss.written) == 4
    value = loss(tensor, targets=targets)
    assert float(value.detach()) > 0
    value.backward()
    assert targets.grad is None and tensor.grad.abs().sum() > 0
    assert tensor.grad[:, 1].abs().max() == 0  # the queries are the first views
    assert loss.decay(0.5) == pytest.approx(0.999)


def test_the_queue_of_moco_keeps_the_last_keys_and_is_saved():
    loss, other, keys = Moco(1, queue=5), Moco(1, queue=5), torch.arange(1.0, 14)[:, None]
    for begin in range(0, 13, 3):
        loss.remember(keys[begin : begin + 3])
    assert sorted(loss.keys[:, 0].tolist()) == [9, 10, 11, 12, 13]
    other.load_state_dict(loss.state_dict())
    assert torch.equal(other.keys, loss.keys) and int(other.written) == int(loss.written)
    loss.remember(torch.arange(100.0, 108)[:, None])
    assert sorted(loss.keys[:, 0].tolist()) == [103, 104, 105, 106, 107]


@pytest.mark.parametrize(("steps", "frozen"), [(100, FROZEN_STEPS), (4, 1), (20, 2)])
def test_the_prototypes_of_swav_rest_at_first_and_then_train(steps: int, frozen: int):
    torch.manual_seed(0)
    loss = Swav(5, projector=8, projection=4, prototypes=6).double().train()
    moved = []
    for step in range(min(steps, FROZEN_STEPS + 2)):
        loss.zero_grad()
        loss(drawn(8, 2)).backward()
        moved.append(loss.prototypes.weight.grad is not None and bool(loss.prototypes.weight.grad.any()))
        loss.after_step((step + 1) / steps)
    assert moved == [False] * frozen + [True] * (len(moved) - frozen)
    assert "steps" in loss.state_dict()
