"""Token views: attention and token vectors are given, the choice is counted out; and centres of tokens."""

import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from contrastive.views.cluster import assign, centres, cluster
from contrastive.views.layers import layers
from contrastive.views.topk_tokens import topk_tokens
from tests.contrastive.views.conftest import batch_of

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
    """Each member's nearest centre is its own."""
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
