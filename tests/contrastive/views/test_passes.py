"""Views by passes: which vectors, tokens and centres of tokens they are. In `known`, dropout negates."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from contrastive.config.cell import Encoder, Scratch
from contrastive.contract.views import PAD, batch_of
from contrastive.errors import UserError
from contrastive.models import encoder as encoders
from contrastive.views.passes import (
    assign,
    centres,
    cls,
    cluster,
    layers,
    momentum,
    multiview,
    one_stage,
    pair,
    topk_tokens,
    two_stage,
)
from tests.contrastive.views.conftest import set_dropout

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


def dropping(share: float) -> nn.Module:
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


TOKENS = torch.arange(2 * 5 * 2.0).view(2, 5, 2)


def test_a_layer_means_its_output_with_its_own_attention(known):
    """Block 0 attends to the first word most, block 1 to the last."""
    rows = [torch.tensor([[0.0, 3, 2, 1, 0]]), torch.tensor([[0.0, 1, 2, 3, 0]])]
    batch, hidden = batch_of(3), [TOKENS[:1], 100 + TOKENS[:1]]
    view = layers(lambda _: known(batch, hidden, rows), batch, layers=(0, 1), level="token", k=1)
    assert torch.equal(view.groups[0].vectors[0, 0], hidden[0][0, 1])
    assert torch.equal(view.groups[1].vectors[0, 0], hidden[1][0, 3])


@given(count=st.lists(st.integers(0, 9), min_size=1, max_size=5), k=st.integers(1, 20), seed=st.integers(0, 1000))
def test_whatever_the_texts_only_their_own_words_are_chosen_the_most_attended_first(count, k, seed, request):
    known, batch = request.getfixturevalue("known"), batch_of(*count)
    generator = torch.Generator().manual_seed(seed)
    shape = batch.input_ids.shape
    attention = torch.rand(shape, generator=generator).masked_fill(~batch.attention_mask, 0.0)
    tokens = torch.arange(batch.input_ids.numel()).view(shape)[..., None].expand(-1, -1, 2).double()
    group = topk_tokens(lambda _: known(batch, [tokens], [attention]), batch, k=k).groups[0]
    assert group.mask.sum(1).tolist() == [min(k, words) for words in count]
    for i, words in enumerate(count):
        chosen = group.vectors[i, group.mask[i], 0].long() - i * shape[1]
        assert all(1 <= place <= words for place in chosen.tolist())  # CLS is at 0, SEP behind the words
        best = attention[i, 1 : words + 1].sort(descending=True).values[:k]
        assert attention[i, chosen].tolist() == best.tolist()


def points(samples: int = 4, count: int = 12, size: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    drawn = torch.randn(samples, count, size, generator=torch.Generator().manual_seed(0))
    mask = torch.arange(count) < torch.tensor([12, 7, 2, 1][:samples])[:, None]
    return F.normalize(drawn, dim=-1), mask


def test_two_far_groups_are_found_and_a_centre_without_members_does_not_exist():
    vectors = torch.tensor([[[0.0, 0], [10, 0], [0, 1], [10, 1], [99, 99]]])
    group = centres(vectors, torch.tensor([[True] * 4 + [False]]), 2)
    assert sorted(group.vectors[0].tolist()) == [[0.0, 0.5], [10.0, 0.5]] and group.mask.all()
    assert centres(*points(), 3).mask.sum(1).tolist() == [3, 3, 2, 1]


def test_lloyd_has_converged_for_each_sample_as_if_it_were_alone():
    vectors, mask = points()
    member, group = assign(vectors, mask, 3).argmax(-1), centres(vectors, mask, 3)
    distance = torch.cdist(vectors, group.vectors).masked_fill(~group.mask[:, None], torch.inf)
    assert torch.equal(distance.argmin(-1)[mask], member[mask])
    for i in range(len(vectors)):
        alone = centres(vectors[i : i + 1], mask[i : i + 1], 3)
        torch.testing.assert_close(alone.vectors[0], group.vectors[i])


def test_the_gradient_is_shared_among_the_members_and_nobody_else():
    vectors, mask = points(samples=2)
    vectors.requires_grad_()
    group, member = centres(vectors, mask, 2), assign(vectors.detach(), mask, 2)
    group.vectors[:, 0].sum().backward()
    expected = (member[..., 0] / member[..., 0].sum(1, keepdim=True))[..., None].expand_as(vectors)
    torch.testing.assert_close(vectors.grad, expected)


def test_the_points_are_the_normalised_tokens_of_the_text(known):
    batch, tokens = batch_of(3), torch.tensor([[[9.0, 9], [3, 0], [5, 0], [0, 2], [9, 9]]])
    attention = torch.tensor([[0.0, 0.3, 0.2, 0.1, 0.4]])
    group = cluster(lambda _: known(batch, [tokens], [attention]), batch, k=3, clusters=2).groups[0]
    assert sorted(group.vectors[0].tolist()) == [[0.0, 1.0], [1.0, 0.0]]
