"""The views made of sentence vectors: which vectors they are. In `known`, dropout negates."""

import pytest
import torch
from torch import nn

from contrastive import encoder as encoders
from contrastive.config import Encoder, Scratch
from contrastive.errors import UserError
from contrastive.views.cls import cls
from contrastive.views.layers import layers
from contrastive.views.multiview import multiview
from contrastive.views.one_stage import one_stage
from contrastive.views.two_stage import two_stage
from tests.contrastive.views.conftest import PAD, batch_of

BATCH = batch_of(3, 2)
HIDDEN = [torch.full((2, 5, 4), float(block + 1)) for block in range(4)]
SENTENCE = [hidden[:, 0] for hidden in HIDDEN]


def test_cls_is_the_sentence_vector_and_the_head_reads_it_through_dropout(known):
    view = cls(lambda _: known(BATCH, HIDDEN), BATCH)
    assert torch.equal(view.groups[0].vectors, SENTENCE[3][:, None])
    assert torch.equal(view.sentences, -SENTENCE[3][:, None])


def test_multiview_is_the_last_block_the_middle_one_and_a_dropout_of_the_last(known):
    view = multiview(lambda _: known(BATCH, HIDDEN), BATCH, middle=None)
    assert torch.equal(view.groups[0].vectors, torch.stack([SENTENCE[3], SENTENCE[1], -SENTENCE[3]], 1))
    other = multiview(lambda _: known(BATCH, HIDDEN), BATCH, middle=0)
    assert torch.equal(other.groups[0].vectors[:, 1], SENTENCE[0])


def test_layers_at_sentence_level_are_each_block_and_a_dropout_of_it(known):
    view = layers(lambda _: known(BATCH, HIDDEN), BATCH, layers=(0, 3), level="sentence", k=1)
    assert len(view.groups) == 2
    for group, block in zip(view.groups, (0, 3), strict=True):
        assert torch.equal(group.vectors, torch.stack([SENTENCE[block], -SENTENCE[block]], 1))


@pytest.mark.parametrize("view", ["multiview", "layers"])
def test_a_block_that_the_encoder_has_not(view, known):
    with pytest.raises(UserError, match="blocks 0 to 3"):
        if view == "multiview":
            multiview(lambda _: known(BATCH, HIDDEN), BATCH, middle=4)
        else:
            layers(lambda _: known(BATCH, HIDDEN), BATCH, layers=(1, 4), level="sentence", k=1)


def passes(view, inside: float, outside: float) -> tuple[int, torch.Tensor]:
    """How often a view encodes, and its vectors; with so much dropout inside of the encoder and on its output."""
    torch.manual_seed(0)
    sizes = Scratch(layers=2, hidden=16, heads=2, vocabulary=64)
    backbone = encoders.load(Encoder(model="scratch:bert", scratch=sizes), 64, PAD).train()
    for module in backbone.modules():
        if isinstance(module, nn.Dropout):
            module.p = inside
        elif hasattr(module, "dropout_prob"):
            module.dropout_prob = inside
    calls = []

    def encode(batch):
        calls.append(batch)
        return encoders.encode(backbone, batch, "cls", nn.Dropout(outside))

    vectors = view(encode, BATCH).groups[0].vectors
    return len(calls), vectors


def test_two_stage_differs_by_the_dropout_of_the_encoder_and_one_stage_does_not():
    count, vectors = passes(two_stage, inside=0.3, outside=0.0)
    assert count == 2 and not torch.equal(vectors[:, 0], vectors[:, 1])
    count, vectors = passes(one_stage, inside=0.3, outside=0.0)
    assert count == 1 and torch.equal(vectors[:, 0], vectors[:, 1])
    _, vectors = passes(one_stage, inside=0.0, outside=0.3)
    assert not torch.equal(vectors[:, 0], vectors[:, 1])
