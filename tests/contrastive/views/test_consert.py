"""ConSERT's changes as properties: how much changes, where, and what stays."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from contrastive.contract.views import batch_of
from contrastive.errors import UserError
from contrastive.views.consert import consert, kept, pushed, shuffled, slope
from contrastive.views.types import Encode, Encoded

texts = st.lists(st.integers(0, 30), min_size=1, max_size=4)
CHANGES = ("token_cutoff", "feature_cutoff", "span_cutoff", "position_shuffle", "dropout", "adversarial")


def mask_of(change: str, count: list[int], rate: float, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What the embeddings are multiplied with, and which tokens are words."""
    torch.manual_seed(seed)
    batch = batch_of(*count)
    return kept(torch.ones(*batch.input_ids.shape, 50), batch, change, rate), ~batch.special


@settings(max_examples=25)
@given(count=texts, rate=st.floats(0.05, 0.95), seed=st.integers(0, 1000))
@pytest.mark.parametrize("change", ["token_cutoff", "span_cutoff"])
def test_a_share_of_the_words_goes_and_nothing_else(change, count, rate, seed):
    mask, words = mask_of(change, count, rate, seed)
    gone = mask[..., 0] == 0
    assert not (gone & ~words).any()
    assert gone.sum(1).tolist() == [round(rate * n) for n in count]
    if change == "span_cutoff":
        assert ((gone[:, 1:] != gone[:, :-1]).sum(1) <= 2).all()


def test_a_feature_goes_in_all_tokens_of_a_text_and_dropout_keeps_the_mean():
    cut, dropped = (mask_of(change, [9] * 40, 0.3, 0)[0] for change in ("feature_cutoff", "dropout"))
    assert cut.shape == (40, 1, 50) and float((cut == 0).float().mean()) == pytest.approx(0.3, abs=0.03)
    assert float(dropped.mean()) == pytest.approx(1.0, abs=0.02)
    assert float((dropped == 0).float().mean()) == pytest.approx(0.3, abs=0.02)


@given(count=texts, seed=st.integers(0, 1000))
def test_words_change_places_and_nothing_else_does(count, seed):
    torch.manual_seed(seed)
    batch = batch_of(*count)
    places, words = shuffled(batch), ~batch.special
    own = torch.arange(batch.input_ids.shape[1]).expand_as(places)
    assert torch.equal(places.sort(1).values, own) and torch.equal(places[~words], own[~words])
    assert not torch.equal(shuffled(batch_of(20)), torch.arange(22)[None])


@pytest.mark.parametrize("change", CHANGES)
def test_the_two_versions_differ_from_each_other_and_the_head_reads_the_text(change, known):
    """The encoder here gives the embeddings themselves: what it was asked to change is what comes out."""
    asked = []

    def encode(batch, **changes):
        asked.append(set(changes))
        states = torch.arange(1.0, batch.input_ids.shape[1] + 1)[None, :, None].expand(len(batch), -1, 8)
        if "alter" in changes:
            states = changes["alter"](states)
        if "positions" in changes:
            states = states * changes["positions"][..., None]
        return known(batch, [states.sum(1, keepdim=True).expand_as(states)])

    torch.manual_seed(0)
    view = consert(encode, batch_of(20, 9), change=change, rate=0.3, head_loss=noisy)
    assert asked[0] == set() and asked[-1] != set()
    assert view.groups[0].vectors.shape == (2, 2, 8) and view.sentences.shape == (2, 1, 8)
    assert not torch.equal(view.groups[0].vectors[:, 0], view.groups[0].vectors[:, 1])


@pytest.mark.parametrize("encode", ["deberta-v2"], indirect=True)
def test_an_encoder_without_positions_is_refused(encode: Encode):
    with pytest.raises(UserError, match="deberta-v2 has relative positions"):
        consert(encode, batch_of(9, 4), change="position_shuffle", head_loss=noisy)


def noisy(encoded: Encoded) -> torch.Tensor:
    """A head_loss with dropout, which makes two slopes differ."""
    pooled = encoded.pooled()
    return (pooled * torch.randn_like(pooled)).sum()


def wrong(encoded: Encoded) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(encoded.pooled()[:, :2], encoded.batch.labels, reduction="sum")


@pytest.mark.parametrize("without_graph", [False, True])
def test_the_adversarial_change_makes_the_head_more_wrong(encode: Encode, without_graph: bool):
    batch = batch_of(9, 4, 6, 7)

    def judged(**changes) -> float:
        torch.manual_seed(3)  # one dropout for all
        return float(wrong(encode(batch, **changes)).detach())

    torch.manual_seed(3)
    with torch.set_grad_enabled(not without_graph):
        found = slope(encode, batch, wrong)
    for rate in (0.01, 0.1):
        more = judged(alter=partial(pushed, batch=batch, slope=found, rate=rate))
        for seed in range(5):
            other = torch.randn(found.shape, generator=torch.Generator().manual_seed(seed))
            assert more > judged(alter=partial(pushed, batch=batch, slope=other, rate=rate)) + 1e-4
        assert more > judged() + 1e-4


def test_every_number_of_a_word_moves_equally_far_and_nothing_else_moves():
    batch = batch_of(5, 2)
    embedded, slopes = torch.randn(2, 7, 6), torch.randn(2, 7, 6)
    moved = pushed(embedded, batch, slopes, 0.5) - embedded
    words = ~batch.special
    assert torch.equal(moved[~words], torch.zeros_like(moved[~words]))
    for i in range(2):
        own = embedded[i, words[i]].std(correction=0)
        torch.testing.assert_close(moved[i, words[i]], 0.5 * own * slopes[i, words[i]].sign())
    alone = batch_of(2)
    by_itself = pushed(embedded[1:, :4], alone, slopes[1:, :4], 0.5) - embedded[1:, :4]
    torch.testing.assert_close(by_itself, moved[1:, :4])  # whatever stands beside it
