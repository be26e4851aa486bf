"""Pairs from the data: a text and one that means the same, and, where the data has it, a hard negative."""

from dataclasses import replace

import torch

from contrastive.config.facts import ViewFacts
from contrastive.views.batches import Batch
from contrastive.views.types import Encode, View, unmasked

PAIR_FACTS = ViewFacts(vectors=2, partners=True)


def pair(encode: Encode, batch: Batch) -> View:
    """Return the vectors of a text and of its `positive`; the `negative` texts are hard negatives of the group.

    The head reads the text itself. Only simcse_sup reads hard negatives; other losses use the pair alone.
    """
    encoded = encode(batch)
    sentence = encoded.pooled()
    positive, *negative = (encode(partner).pooled() for partner in batch.partners)
    pairs = unmasked(torch.stack([sentence, positive], dim=1))
    group = replace(pairs, negatives=negative[0] if negative else None)
    return View([group], torch.stack([encoded.dropout(sentence)], dim=1))
