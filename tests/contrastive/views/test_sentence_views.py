"""The views made of sentence vectors: which vectors they are. In `known`, dropout negates."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from contrastive.config.cell import Encoder, Scratch
from contrastive.errors import UserError
from contrastive.models import encoder as encoders
from contrastive.views.backtranslation import backtranslation
from contrastive.views.cls import cls
from contrastive.views.layers import layers
from contrastive.views.momentum import momentum
from contrastive.views.multiview import multiview
from contrastive.views.one_stage import one_stage
from contrastive.views.pair import pair
from contrastive.views.two_stage import two_stage
from tests.contrastive.views.conftest import PAD, batch_of, set_dropout

BATCH = batch_of(3, 2)
HIDDEN = [torch.full((2, 5, 4), float(block + 1)) for block in range(4)]
SENTENCE = [hidden[:, 0] for hidden in HIDDEN]


def test_which_blocks_cls_multiview_and_layers_are_and_their_dropouts(known):
    def made(view, **settings):
        return view(lambda _: known(BATCH, HIDDEN), BATCH, **settings)

    assert torch.equal(made(cls).groups[0].vectors, SENTENCE[3][:, None])
    assert torch.equal(made(cls).sentences, -SENTENCE[3][:, None])  # the head reads it through dropout
    three = made(multiview, middle=None).groups[0].vectors
    assert torch.equal(three, torch.stack([SENTENCE[3], SENTENCE[1], -SENTENCE[3]], 1))
    assert torch.equal(made(multiview, middle=0).groups[0].vectors[:, 1], SENTENCE[0])
    groups = made(layers, layers=(0, 3), level="sentence", k=1).groups
    for group, block in zip(groups, (0, 3), strict=True):
        assert torch.equal(group.vectors, torch.stack([SENTENCE[block], -SENTENCE[block]], 1))
    for view, settings in ((multiview, {"middle": 4}), (layers, {"layers": (1, 4), "level": "sentence", "k": 1})):
        with pytest.raises(UserError, match="blocks 0 to 3"):
            made(view, **settings)


def test_pair_is_the_text_and_its_partners(known):
    def encode(batch):
        return known(batch, [batch.input_ids[..., None].expand(-1, -1, 4).float().flip(1)])

    texts, positives, negatives = batch_of(5, 5), batch_of(3, 3), batch_of(7, 7)
    lone = replace(texts, partners=(positives,))
    for batch, hard in ((lone, None), (replace(lone, partners=(positives, negatives)), negatives)):
        (group,) = pair(encode, batch).groups
        assert torch.equal(group.vectors[:, 0], encode(texts).pooled()) and group.mask.all()
        assert torch.equal(group.vectors[:, 1], encode(positives).pooled())
        assert group.negatives is None if hard is None else torch.equal(group.negatives, encode(hard).pooled())
    assert torch.equal(pair(encode, lone).sentences[:, 0], -encode(texts).pooled())  # known's dropout


def test_backtranslation_is_the_text_and_its_back_translation(known):
    batch, other, asked = batch_of(3, 1), batch_of(2, 5), []

    def encode(read):
        return known(read, [read.input_ids.double().mean(1)[:, None, None].expand(-1, read.input_ids.shape[1], 4)])

    view = backtranslation(encode, batch, lambda *given: asked.append(given) or other, translators=("there", "back"))
    (group,), sentence = view.groups, encode(batch).pooled()
    assert len(asked) == 1 and asked[0][0] is batch and asked[0][1] == ("there", "back")
    assert torch.equal(group.vectors, torch.stack([sentence, encode(other).pooled()], dim=1)) and group.mask.all()
    assert torch.equal(view.sentences, -sentence[:, None])


def dropping(share: float) -> nn.Module:
    """A small encoder in training, with so much dropout."""
    torch.manual_seed(0)
    sizes = Scratch(layers=2, hidden=16, heads=2, vocabulary=64)
    backbone = encoders.load_encoder(Encoder(model="scratch:bert", scratch=sizes), 64, PAD).train()
    set_dropout(backbone, share)
    return backbone


def passes(view, inside: float, outside: float) -> tuple[int, torch.Tensor]:
    """How often a view encodes, and its vectors; with so much dropout inside of the encoder and on its output."""
    backbone, calls = dropping(inside), []

    def encode(batch):
        calls.append(batch)
        return encoders.encode(backbone, batch, "cls", nn.Dropout(outside))

    vectors = view(encode, BATCH).groups[0].vectors
    return len(calls), vectors


def test_two_stage_differs_by_the_dropout_of_the_encoder_and_one_stage_does_not():
    count, vectors = passes(two_stage, inside=0.3, outside=0.0)
    assert count == 1 and not torch.equal(vectors[:, 0], vectors[:, 1])
    count, vectors = passes(one_stage, inside=0.3, outside=0.0)
    assert count == 1 and torch.equal(vectors[:, 0], vectors[:, 1])
    _, vectors = passes(one_stage, inside=0.0, outside=0.3)
    assert not torch.equal(vectors[:, 0], vectors[:, 1])


@pytest.mark.parametrize("name", ["two_stage", "momentum"])
def test_a_doubled_batch_gives_what_two_passes_give(name):
    """Without dropout, values and gradients; with it, each row has masks of its own."""
    backbone, slow = dropping(0.0).double(), dropping(0.0).double()
    with torch.no_grad():
        next(slow.parameters()).add_(0.1)

    def through(model):
        return lambda batch: encoders.encode(model, batch, "mean", nn.Dropout(0.0))

    tools = {"slow": through(slow)} if name == "momentum" else {}
    view = {"two_stage": two_stage, "momentum": momentum}[name](through(backbone), BATCH, **tools)
    first, second = (through(backbone)(BATCH).pooled() for _ in range(2))
    torch.testing.assert_close(view.groups[0].vectors, torch.stack([first, second], 1), atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(view.sentences, view.groups[0].vectors)
    if name == "momentum":
        copied = through(slow)(BATCH).pooled()
        torch.testing.assert_close(view.groups[0].targets, torch.stack([copied, copied], 1), atol=1e-6, rtol=1e-6)
        assert not view.groups[0].targets.requires_grad
    slopes = [
        torch.autograd.grad(vectors.tanh().sum(), list(backbone.parameters()), allow_unused=True)
        for vectors in (view.groups[0].vectors, torch.stack([first, second], 1))
    ]
    for one, other in zip(*slopes, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-6)
