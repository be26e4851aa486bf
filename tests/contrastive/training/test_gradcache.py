"""A batch in parts gives the gradient of the whole batch, with the dropout of its first pass."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from contrastive.config.cell import Encoder, Scratch
from contrastive.contract.views import batch_of
from contrastive.losses import LOSSES
from contrastive.models import encoder as encoders
from contrastive.training import gradcache
from contrastive.views import VIEWS
from contrastive.views.batches import Batch
from contrastive.views.hidden_words import Masked
from contrastive.views.types import Encoded, Output
from tests.contrastive.views.conftest import set_dropout

LENGTHS = (6, 2, 5, 1, 4, 3, 6)


class Tiny(nn.Module):
    """An encoder, a view and a head, as a cell has them."""

    def __init__(self, view: str, dropout: float):
        super().__init__()
        torch.manual_seed(0)
        sizes = Scratch(layers=2, hidden=16, heads=2, vocabulary=64)
        self.backbone = encoders.load_encoder(Encoder(model="scratch:bert", scratch=sizes), 64, 0).double()
        set_dropout(self.backbone, dropout)
        self.dropout, self.head, self.view = nn.Dropout(dropout), nn.Linear(16, 2).double(), view
        guesser = encoders.load_masked_lm_head(Encoder(model="scratch:bert", scratch=sizes), self.backbone)
        self.masked = Masked(guesser.double(), 4, range(5), 64)

    def encode(self, batch: Batch) -> Encoded:
        return encoders.encode(self.backbone, batch, "cls", self.dropout)

    def forward(self, batch: Batch) -> Output:
        settings = {"k": 4} if self.view == "topk_tokens" else {}
        view = VIEWS[self.view](self.encode, batch, **settings)
        guesses = self.masked(self.encode, batch) if self.view == "pair" else None
        return Output(view.groups, view.sentences, self.head(view.sentences), guesses)


def texts(*lengths: int) -> Batch:
    return replace(batch_of(*lengths), partners=(batch_of(*lengths[::-1]), batch_of(*sorted(lengths))))


def loss(output: Output, labels: torch.Tensor, view: str) -> torch.Tensor:
    if view == "pair":  # with all that a batch may carry: hard negatives, and hidden words
        group, guesses = output.groups[0], output.guesses
        hidden = LOSSES["mlm"](guesses.surprise, hidden=guesses.hidden)
        return LOSSES["simcse_sup"](group.vectors, negatives=group.negatives, mask=group.mask) + hidden
    contrast = LOSSES["simcse" if view == "two_stage" else "supcon"]
    given = {} if view == "two_stage" else {"labels": labels}
    group = output.groups[0]
    return LOSSES["ce"](output.logits, labels=labels) + contrast(group.vectors, mask=group.mask, **given)


def gradients(model: Tiny, encoded: gradcache.Direct | gradcache.Replayed, labels: torch.Tensor) -> dict:
    model.zero_grad()
    loss(encoded.output, labels, model.view).backward()
    encoded.finish()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("view", ["cls", "two_stage", "topk_tokens"])
@pytest.mark.parametrize("at_a_time", [1, 3])
def test_without_dropout_it_is_the_gradient_of_the_whole_batch(view: str, at_a_time: int):
    model, batch = Tiny(view, dropout=0.0).train(), batch_of(*LENGTHS)
    whole = gradients(model, gradcache.encode_in_parts(model, batch, None), batch.labels)
    parts = gradients(model, gradcache.encode_in_parts(model, batch, at_a_time), batch.labels)
    assert parts.keys() == whole.keys()
    for name, expected in whole.items():
        torch.testing.assert_close(parts[name], expected, atol=1e-10, rtol=1e-8)


@pytest.mark.parametrize("view", ["two_stage", "pair"])
def test_with_dropout_it_is_that_of_the_parts_with_their_graph(view: str):
    model, batch = Tiny(view, dropout=0.3).train(), texts(*LENGTHS)
    torch.manual_seed(5)
    joined = gradcache.join_outputs([model(batch[0:3]), model(batch[3:6]), model(batch[6:7])])
    expected = gradients(model, gradcache.Direct(joined), batch.labels)
    after = torch.rand(1)
    torch.manual_seed(5)
    found = gradients(model, gradcache.encode_in_parts(model, batch, 3), batch.labels)
    assert torch.equal(torch.rand(1), after)  # nothing was drawn that would not have been drawn
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], atol=1e-10, rtol=1e-8)


def test_the_gradient_of_a_term_leaves_the_rest_as_it_is():
    model, batch = Tiny("cls", dropout=0.2).train(), batch_of(*LENGTHS)
    torch.manual_seed(5)
    encoded = gradcache.encode_in_parts(model, batch, 2)
    value = loss(encoded.output, batch.labels, "cls")
    parameters = list(model.backbone.parameters())
    alone = encoded.gradients(value, parameters)
    assert all(parameter.grad is None for parameter in parameters)
    value.backward()
    encoded.finish()
    for parameter, gradient in zip(parameters, alone, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, atol=1e-10, rtol=1e-8)


def most_kept(model: Tiny, batch: Batch, at_a_time: int | None) -> int:
    now = most = 0

    def save(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal now, most
        now += tensor.nbytes
        most = max(most, now)
        return tensor

    def load(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal now
        now -= tensor.nbytes
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(save, load):
        gradients(model, gradcache.encode_in_parts(model, batch, at_a_time), batch.labels)
    return most


@pytest.mark.parametrize("texts", [16, 64])
def test_a_batch_in_parts_keeps_what_a_batch_of_one_part_keeps(texts: int):
    model = Tiny("two_stage", dropout=0.0).train()
    batch = batch_of(*([6] * texts))
    leaves = sum(leaf.nbytes for leaf in gradcache.output_tensors(gradcache.encode_in_parts(model, batch, 4).output))
    part = most_kept(model, batch[0:4], None)
    assert most_kept(model, batch, 4) <= 1.2 * part + leaves
    assert most_kept(model, batch, None) > texts / 4 / 2 * part  # of which the weights are no more in a larger batch
