"""Losses where their values are known, and what those with weights or a queue keep. A new loss has a file of its own.

That a loss is its formula, tests/contrastive/losses/oracles.py says.
"""

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.errors import UserError
from contrastive.losses.align_uniform import align_uniform
from contrastive.losses.barlow import Barlow, barlow
from contrastive.losses.bert_ct import bert_ct
from contrastive.losses.byol import Byol
from contrastive.losses.ce import ce
from contrastive.losses.dcl import dcl
from contrastive.losses.moco import Moco
from contrastive.losses.rdrop import rdrop
from contrastive.losses.sccl import Sccl, clustering
from contrastive.losses.simcse_sup import simcse_sup
from contrastive.losses.similarity import least
from contrastive.losses.supcon import supcon
from contrastive.losses.supcon_in import supcon_in
from contrastive.losses.swav import RESTING, Swav, codes
from contrastive.losses.vicreg import EPSILON, vicreg


def double(rows: list) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def drawn(samples: int, views: int, size: int = 5, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(samples, views, size, generator=generator, dtype=torch.float64).requires_grad_()


def ones(samples: int, views: int) -> Tensor:
    return torch.ones(samples, views, 3, dtype=torch.float64)


def of_two_classes(samples: int) -> Tensor:
    return torch.arange(samples) % 2


OPPOSITE = double([[[1, 0], [2, 0]], [[-1, 0], [-3, 0]]])  # two pairs, aligned, at the squared distance 4
SQUARE = double([[1, 1], [1, -1], [-1, 1], [-1, -1]])  # its dimensions are uncorrelated
SIGMOID = 1 / (1 + math.exp(-1.7))  # against ½ the symmetrised divergence is ½ · (p₁ − ½) · x, over both classes
CERTAIN = double([[[1000, -1000], [-1000, 1000]]])
KNOWN: dict[str, tuple[Callable[[], Tensor], float]] = {
    "align_uniform: collapse is aligned and not uniform": (lambda: align_uniform(ones(5, 2)), 0),
    "align_uniform: opposite pairs": (lambda: align_uniform(OPPOSITE), -8),
    "barlow: equal views": (lambda: barlow(torch.stack([SQUARE, 3 * SQUARE + 5], 1), 1.0), 0),
    "barlow: opposite views": (lambda: barlow(torch.stack([SQUARE, -SQUARE], 1), 1.0), 8),
    "bert_ct: vectors of zero are a coin each": (lambda: bert_ct(torch.zeros(4, 2, 3)), 8 * math.log(2)),
    "ce: no opinion among 2": (lambda: ce(torch.zeros(3, 1, 2), labels=of_two_classes(3)), math.log(2)),
    "ce: no opinion among 7": (lambda: ce(torch.zeros(3, 1, 7), labels=of_two_classes(3)), math.log(7)),
    "dcl: equal vectors": (lambda: dcl(ones(4, 2)), math.log(6)),
    "rdrop: two classes": (lambda: rdrop(double([[[1.7, 0], [0, 0]]])), (SIGMOID - 0.5) * 1.7 / 2),
    "rdrop: certain and opposite": (lambda: rdrop(CERTAIN), 2000),
    "sccl: one centre has nothing to sharpen": (lambda: clustering(drawn(6, 1)[:, 0], drawn(1, 1)[:, 0]), 0),
    "supcon_in: equal vectors": (lambda: supcon_in(ones(4, 2), labels=of_two_classes(4)), math.log(7)),
    "vicreg: collapse costs the variance": (lambda: vicreg(ones(5, 2)), 25 * (1 - EPSILON**0.5)),
    "vicreg: equal spread views": (lambda: vicreg(torch.stack([2 * SQUARE, 2 * SQUARE], 1)), 0),
}


@pytest.mark.parametrize("case", KNOWN)
def test_its_value_is_known(case: str):
    compute, expected = KNOWN[case]
    near = {"barlow: equal views": 1e-8, "barlow: opposite views": 1e-3}.get(case, 1e-12)  # it divides by σ + ε
    assert float(compute().detach()) == pytest.approx(expected, rel=1e-6, abs=near)


@pytest.mark.parametrize(
    ("message", "call"),
    [
        ("logits", lambda: ce(torch.randn(4, 3), labels=torch.tensor([0, 1, 2, 0]))),  # no axis of passes
        ("logits", lambda: rdrop(torch.randn(4, 3, 2))),  # three predictions
        ("views", lambda: supcon(torch.randn(4, 3), labels=of_two_classes(4), temperature=0.1)),  # no axis of views
        ("negatives", lambda: simcse_sup(drawn(4, 2), negatives=ones(3, 1)[:, 0])),  # for three of four texts
        ("sccl has 5 clusters, and there are 4 training texts", lambda: Sccl(3).begin(torch.randn(4, 3))),
    ],
)
def test_what_does_not_fit_is_refused(message: str, call: Callable[[], Tensor]):
    with pytest.raises(UserError if " " in message else Exception, match=f"(?s){message}"):
        call()


def test_rdrop_has_a_gradient_where_predictions_are_certain_and_none_where_they_are_equal():
    for logits, most in ((CERTAIN.clone(), math.inf), (drawn(4, 1).detach().repeat(1, 2, 1), 1e-6)):
        (slope,) = torch.autograd.grad(rdrop(logits.requires_grad_()), logits)
        assert slope.isfinite().all() and slope.abs().max() < most


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


def test_the_projector_of_barlow_has_three_layers_of_one_width():
    widths = [layer.out_features for layer in Barlow(4, projector=8).modules() if isinstance(layer, torch.nn.Linear)]
    assert widths == [8, 8, 8]


def test_the_centres_of_sccl_begin_where_k_means_puts_them():
    loss = Sccl(2, clusters=2)
    loss.begin(torch.tensor([[0.0, 0], [0, 2], [10, 0], [10, 2]]))
    found = sorted(loss.centres.tolist())
    assert [math.dist(a, b) for a, b in zip(found, [[0, 1], [10, 1]], strict=True)] == pytest.approx([0, 0], abs=1e-5)
    assert loss.centres.requires_grad


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


def test_the_codes_of_swav_add_to_one_and_stay_finite():
    scores = torch.rand(8, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2 - 1
    assert codes(scores).sum(1) == pytest.approx(torch.ones(8).numpy())
    assert codes(scores * 1000).isfinite().all()


@pytest.mark.parametrize(("steps", "resting"), [(100, RESTING), (4, 1), (20, 2)])
def test_the_prototypes_of_swav_rest_at_first_and_then_train(steps: int, resting: int):
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
