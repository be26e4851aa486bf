"""Momentum views (MoCo, BYOL): two vectors of the encoder, and two of the slow copy that follows it."""

from dataclasses import replace

import torch

from contrastive.config.facts import Unsplittable, ViewFacts
from contrastive.views.batches import Batch
from contrastive.views.types import Encode, View, as_pairs, unmasked

MOMENTUM_FACTS = ViewFacts(
    vectors=2,
    predictions=2,
    passes=2,
    slow_passes=2,
    unsplittable=Unsplittable(("zero3",), "it averages all weights after each step"),
)


def momentum(encode: Encode, batch: Batch, slow: Encode) -> View:
    """Return the vectors by two dropout masks; `targets` are those of the slow copy by two more, without gradient."""
    twice = batch.times(2)
    encoded = encode(twice)
    vectors = encoded.pooled()
    with torch.no_grad():
        targets = as_pairs(slow(twice).pooled())
    return View([replace(unmasked(as_pairs(vectors)), targets=targets)], as_pairs(encoded.dropout(vectors)))
