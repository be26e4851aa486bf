"""Hidden words: which are hidden and how, what the term mlm makes of them, and what is guessed in their place."""

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM

from contrastive.config.cell import Encoder
from contrastive.contract.views import CLS, PAD, SEP, batch_of
from contrastive.losses.cross_entropy import mlm
from contrastive.models import encoder as encoders
from contrastive.views.batches import Batch
from contrastive.views.hidden_words import Masked, draw_tokens
from contrastive.views.types import Encode

MASK, WORDS = 4, 64


@pytest.fixture
def whole() -> BertForMaskedLM:
    torch.manual_seed(0)
    sizes = {"num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
    return BertForMaskedLM(BertConfig(vocab_size=WORDS, pad_token_id=PAD, **sizes)).eval()


@pytest.fixture
def encode_with(whole: BertForMaskedLM) -> Encode:
    return lambda batch, **changes: encoders.encode(whole.bert, batch, "cls", torch.nn.Identity(), **changes)


def masked(whole: BertForMaskedLM) -> Masked:
    return Masked(whole.cls, MASK, [PAD, CLS, SEP, MASK], WORDS)


def seen(encode: Encode, batch: Batch, run: Masked) -> tuple[Batch, object]:
    """The batch that the encoder was given, and what came of it."""
    given = []

    def spy(changed: Batch) -> object:
        given.append(changed)
        return encode(changed)

    made = run(spy, batch)
    return given[0], made


def test_the_term_is_that_of_transformers(whole: BertForMaskedLM, encode_with: Encode):
    batch = batch_of(30, 3, 17)
    torch.manual_seed(0)
    changed, guesses = seen(encode_with, batch, masked(whole))
    torch.manual_seed(0)
    asked = draw_tokens(batch, 0.15)
    labels = batch.input_ids.masked_fill(~asked, -100)
    theirs = whole(changed.input_ids, attention_mask=batch.attention_mask.long(), labels=labels).loss
    ours = mlm(guesses.surprise, hidden=guesses.hidden)
    torch.testing.assert_close(ours, theirs)
    assert guesses.hidden.tolist() == asked.sum(1).tolist()
    parameters = list(whole.parameters())
    for one, other in zip(torch.autograd.grad(ours, parameters), torch.autograd.grad(theirs, parameters), strict=True):
        torch.testing.assert_close(one, other)


def test_of_the_tokens_asked_for_most_are_masked_and_some_are_another_word(whole: BertForMaskedLM, encode_with: Encode):
    torch.manual_seed(0)
    batch = batch_of(*[50] * 200)
    changed, guesses = seen(encode_with, batch, masked(whole))
    words = ~batch.special
    assert torch.equal(changed.input_ids[~words], batch.input_ids[~words])
    other = changed.input_ids != batch.input_ids
    hidden = changed.input_ids == MASK
    assert float(guesses.hidden.sum() / words.sum()) == pytest.approx(0.15, abs=0.01)
    assert float(hidden.sum() / guesses.hidden.sum()) == pytest.approx(0.8, abs=0.03)
    assert float((other & ~hidden).sum() / guesses.hidden.sum()) == pytest.approx(0.1, abs=0.03)


def test_guesses_are_drawn_as_likely_as_the_head_says(whole: BertForMaskedLM, encode_with: Encode):
    batch = batch_of(*[5] * 4000)
    asked = torch.zeros_like(batch.special)
    asked[:, 2] = True
    torch.manual_seed(0)
    guessed = masked(whole).guess(encode_with, batch, asked)
    assert torch.equal(guessed.input_ids[~asked], batch.input_ids[~asked])
    counts = guessed.input_ids[:, 2].bincount(minlength=WORDS)
    assert counts[[PAD, CLS, SEP, MASK]].tolist() == [0, 0, 0, 0]
    hidden = batch.input_ids[:1].masked_fill(asked[:1], MASK)
    scores = whole(hidden, attention_mask=batch.attention_mask[:1].long()).logits[0, 2]
    scores[[PAD, CLS, SEP, MASK]] = -torch.inf
    likely = scores.softmax(0).detach()
    assert float((counts / 4000 - likely).abs().sum()) < 0.15  # of 2, were they drawn from another distribution


@pytest.mark.parametrize("model", ["scratch:bert", "scratch:deberta-v2"])
def test_a_scratch_encoders_head_shares_its_word_vectors(model: str):
    torch.manual_seed(0)
    encoder = Encoder(model=model)
    backbone = encoders.load_encoder(encoder, WORDS, PAD)
    head = encoders.load_masked_lm_head(encoder, backbone)
    assert any(p is backbone.get_input_embeddings().weight for p in head.parameters())
    batch = batch_of(9, 4)
    guesses = Masked(head, MASK, [PAD, CLS, SEP, MASK], WORDS)(
        lambda given: encoders.encode(backbone, given, "cls", torch.nn.Identity()), batch
    )
    assert guesses.surprise.requires_grad and guesses.surprise.isfinite().all()
