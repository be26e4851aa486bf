"""Token views by hand: attention and token vectors are given, the choice is counted out."""

import torch

from contrastive.views.layers import layers
from contrastive.views.topk_tokens import topk_tokens
from tests.contrastive.views.conftest import batch_of

BATCH = batch_of(3, 1)  # CLS a b c SEP | CLS a SEP pad pad
TOKENS = torch.arange(2 * 5 * 2.0).view(2, 5, 2)
ATTENTION = torch.tensor([[0.5, 0.1, 0.05, 0.2, 0.15], [0.6, 0.1, 0.3, 0.0, 0.0]])


def test_the_most_attended_words_in_order_never_special_tokens_or_padding(known):
    group = topk_tokens(lambda _: known(BATCH, [TOKENS], [ATTENTION]), BATCH, k=2).groups[0]
    assert torch.equal(group.vectors[0], TOKENS[0, [3, 1]])
    assert torch.equal(group.vectors[1, 0], TOKENS[1, 1])
    assert group.mask.tolist() == [[True, True], [True, False]]


def test_more_tokens_than_there_are(known):
    group = topk_tokens(lambda _: known(BATCH, [TOKENS], [ATTENTION]), BATCH, k=90).groups[0]
    assert group.mask.sum(1).tolist() == [3, 1]
    assert torch.equal(group.vectors[0, :3], TOKENS[0, [3, 1, 2]])


def test_a_layer_means_its_output_with_its_own_attention(known):
    """Block 0 attends to the first word most, block 1 to the last."""
    rows = [torch.tensor([[0.0, 3, 2, 1, 0]]), torch.tensor([[0.0, 1, 2, 3, 0]])]
    batch, hidden = batch_of(3), [TOKENS[:1], 100 + TOKENS[:1]]
    view = layers(lambda _: known(batch, hidden, rows), batch, layers=(0, 1), level="token", k=1)
    assert torch.equal(view.groups[0].vectors[0, 0], hidden[0][0, 1])
    assert torch.equal(view.groups[1].vectors[0, 0], hidden[1][0, 3])
