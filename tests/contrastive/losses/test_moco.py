"""MoCo: the queue as a ring, and nothing but real keys as negatives."""

import pytest
import torch

from contrastive.losses.moco import Moco


def normal(rows: torch.Tensor) -> torch.Tensor:
    return rows / rows.norm(dim=-1, keepdim=True)


def test_the_first_batch_has_no_negatives_and_the_next_one_has_its_keys(drawn):
    loss, tensor, targets = Moco(5, queue=16).double(), drawn(4, 2), drawn(4, 2, seed=1).detach()
    assert float(loss(tensor, targets=targets).detach()) == 0.0
    assert torch.equal(loss.keys[:4], normal(targets[:, 1])) and int(loss.written) == 4
    assert float(loss(tensor, targets=targets).detach()) > 0


def test_the_queue_keeps_the_last_keys_and_forgets_the_oldest():
    loss, keys = Moco(1, queue=5), torch.arange(1.0, 14)[:, None]
    for begin in range(0, 13, 3):
        loss.remember(keys[begin : begin + 3])
    assert sorted(loss.keys[:, 0].tolist()) == [9, 10, 11, 12, 13]
    loss.remember(torch.arange(100.0, 108)[:, None])
    assert sorted(loss.keys[:, 0].tolist()) == [103, 104, 105, 106, 107]


def test_the_queue_is_saved_and_restored(drawn):
    loss, other = Moco(5, queue=8), Moco(5, queue=8)
    loss.remember(torch.randn(5, 5))
    other.load_state_dict(loss.state_dict())
    assert torch.equal(other.keys, loss.keys) and int(other.written) == 5


def test_targets_have_no_gradient(drawn):
    loss, tensor, targets = Moco(5, queue=8).double(), drawn(4, 2), drawn(4, 2, seed=1)
    loss.remember(normal(torch.randn(3, 5, dtype=torch.float64)))
    loss(tensor, targets=targets).backward()
    assert targets.grad is None and tensor.grad.abs().sum() > 0
    assert tensor.grad[:, 1].abs().max() == 0  # the queries are the first views
    assert loss.decay(0.5) == pytest.approx(0.999)
