"""Views made of tokens, as properties: other versions of a text, its most attended tokens, and centres of tokens."""

import itertools
from collections import Counter

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from contrastive.views import VIEWS
from contrastive.views.cluster import assign, centres, cluster
from contrastive.views.layers import layers
from contrastive.views.span import draw_spans
from contrastive.views.tokens import rebuilt, share_of, words_of
from contrastive.views.topk_tokens import topk_tokens
from tests.contrastive.views.conftest import CLS, SEP, batch_of

REWRITING = ("word_delete", "span_delete", "reorder")
lengths = st.lists(st.integers(0, 40), min_size=1, max_size=5)


def versions(name: str, known, *count: int, seed: int = 0, **settings) -> tuple[list, list]:
    """The tokens of each text, and those of its two versions."""
    read, batch = [], batch_of(*count)

    def encode(given):
        read.append(given)
        return known(given, [torch.zeros(*given.input_ids.shape, 4, requires_grad=True)])

    torch.manual_seed(seed)
    VIEWS[name](encode, batch, **settings)
    return words_of(batch), words_of(read[0])


@pytest.mark.parametrize("name", REWRITING)
@settings(max_examples=25)
@given(count=lengths, seed=st.integers(0, 1000), rate=st.floats(0.05, 0.95))
def test_versions_have_only_tokens_of_their_text_and_are_never_empty(name, count, seed, rate, request):
    known = request.getfixturevalue("known")
    texts, made = versions(name, known, *count, seed=seed, rate=rate)
    assert len(made) == 2 * len(texts)
    for i, version in enumerate(made):
        text = texts[i % len(texts)]
        assert Counter(version.tolist()) <= Counter(text.tolist())
        gone = 0 if name == "reorder" else share_of(len(text), rate)
        assert len(version) == len(text) - gone and (len(version) > 0) == (len(text) > 0)


def test_words_go_in_order_and_apart_in_the_two_versions_a_span_as_one_run_and_two_runs_change_places(known):
    for name in ("word_delete", "span_delete"):
        (text,), (first, second) = versions(name, known, 30, rate=0.3)
        for version in (first, second):
            kept = [token in version for token in text]
            assert version.tolist() == text[kept].tolist() and sum(kept) == 21
            assert name == "word_delete" or sum(a != b for a, b in itertools.pairwise(kept)) <= 2
        assert first.tolist() != second.tolist()
    (text,), made = versions("reorder", known, 30, rate=0.4)
    assert all(not torch.equal(version, text) and torch.equal(version.sort()[0], text.sort()[0]) for version in made)


def test_a_version_stands_between_the_tokens_that_the_tokenizer_adds():
    batch = batch_of(3, 1)
    made = rebuilt(batch, [torch.tensor([9]), torch.tensor([8, 7]), torch.tensor([]).long(), torch.tensor([6])])
    assert made.input_ids.tolist() == [[CLS, 9, SEP, 0], [CLS, 8, 7, SEP], [CLS, SEP, 0, 0], [CLS, 6, SEP, 0]]
    assert made.attention_mask.sum(1).tolist() == [3, 4, 2, 3]
    assert made.special.tolist()[0] == [True, False, True, True]
    assert made.labels.tolist() == [0, 1, 0, 1]


@given(count=st.integers(0, 700), seed=st.integers(0, 1000))
def test_spans_are_runs_of_the_text_that_touch_their_anchor(count, seed):
    torch.manual_seed(seed)
    text = torch.arange(count)
    drawn = draw_spans(text)
    assert len(drawn) == 6
    shortest = min(32, max(1, count // 4)) if count else 0
    for anchor, *positives in (drawn[:3], drawn[3:]):
        for run in (anchor, *positives):
            assert shortest <= len(run) <= min(512, count)
            assert run.tolist() == list(range(int(run[0]), int(run[0]) + len(run))) if len(run) else count == 0
        for positive in positives:
            if count:  # overlapping, adjacent, or one within the other
                assert positive[0] <= anchor[-1] + 1 and positive[-1] >= anchor[0] - 1


def test_anchors_are_longer_than_positives():
    torch.manual_seed(0)
    drawn = [draw_spans(torch.arange(512)) for _ in range(200)]
    anchors = [len(d[i]) for d in drawn for i in (0, 3)]
    positives = [len(d[i]) for d in drawn for i in (1, 2, 4, 5)]
    assert sum(anchors) / len(anchors) == pytest.approx(32 + 480 * 4 / 6, rel=0.05)
    assert sum(positives) / len(positives) == pytest.approx(32 + 480 * 2 / 6, rel=0.05)


def test_an_anchor_is_paired_with_the_mean_of_its_own_positives(known):
    """An encoder whose vector is the mean of the tokens it read tells whose vectors they are."""
    batch = batch_of(30, 20)
    read = []

    def encode(given):
        read.append(given)
        mean = torch.stack([row.double().mean() for row in words_of(given)])
        return known(given, [mean[:, None, None].expand(-1, given.input_ids.shape[1], 2)])

    torch.manual_seed(0)
    vectors = VIEWS["span"](encode, batch).groups[0].vectors[..., 0]
    torch.manual_seed(0)
    for i, text in enumerate(words_of(batch)):
        a, p, q, b, r, s = (run.double().mean() for run in draw_spans(text))
        assert vectors[i].tolist() == pytest.approx([float(v) for v in (a, (p + q) / 2, b, (r + s) / 2)])


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
