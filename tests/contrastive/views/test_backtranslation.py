"""Back-translation: which vectors are compared, and which one the head reads. In `known`, dropout negates."""

import pytest
import torch

from contrastive.views.backtranslation import backtranslation
from tests.contrastive.views.conftest import CLS, SEP, batch_of


def test_the_vectors_are_those_of_the_text_and_of_its_back_translation(known):
    batch, other, asked = batch_of(3, 1), batch_of(2, 5), []

    def encode(read):
        return known(read, [read.input_ids.double().mean(1)[:, None, None].expand(-1, read.input_ids.shape[1], 4)])

    view = backtranslation(encode, batch, lambda *given: asked.append(given) or other, translators=("there", "back"))
    (group,), sentence = view.groups, encode(batch).pooled()
    assert len(asked) == 1 and asked[0][0] is batch and asked[0][1] == ("there", "back")
    assert torch.equal(group.vectors, torch.stack([sentence, encode(other).pooled()], dim=1)) and group.mask.all()
    assert torch.equal(view.sentences, -sentence[:, None])


@pytest.mark.slow
def test_the_models_rephrase_what_the_encoder_reads(talkative, rephrase):
    """Two real translators that understand nothing: other words, of as many texts, between CLS and SEP."""
    batch = batch_of(6, 2, 5, 0)
    other = rephrase(batch, talkative)
    assert len(other) == 4 and torch.equal(other.labels, batch.labels)
    assert not torch.equal(other.input_ids[:, :8], batch.input_ids)
    for row, mask, special in zip(other.input_ids, other.attention_mask, other.special, strict=True):
        read = row[mask].tolist()
        assert (read[0], read[-1]) == (CLS, SEP) and special.sum() == 2 + (~mask).sum() and len(read) <= 16
    assert other.input_ids[3].tolist()[:3] == [CLS, SEP, 0]  # nothing to translate
