"""The pair of the data: the text, its positive, and the hard negative beside them."""

from dataclasses import replace

import torch

from contrastive.views.pair import pair
from contrastive.views.types import Encode
from tests.contrastive.views.conftest import batch_of


def test_the_vectors_are_those_of_the_text_and_of_its_partners(known):
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


def test_a_hard_negative_has_a_gradient(encode: Encode):
    batch = replace(batch_of(5, 2), partners=(batch_of(3, 1), batch_of(2, 6)))
    assert pair(encode, batch).groups[0].negatives.requires_grad
