"""Token views by hand: attention and token vectors are given, the choice is counted out."""

import torch
from hypothesis import given
from hypothesis import strategies as st

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
