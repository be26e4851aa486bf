"""Two views from one encoder pass: two dropout masks on the sentence vector."""

import torch

from contrastive.config.facts import ViewFacts
from contrastive.views.batches import Batch
from contrastive.views.types import Encode, View, unmasked

ONE_STAGE_FACTS = ViewFacts(vectors=2, predictions=2)


def one_stage(encode: Encode, batch: Batch) -> View:
    encoded = encode(batch)
    sentence = encoded.pooled()
    both = torch.stack([encoded.dropout(sentence), encoded.dropout(sentence)], dim=1)
    return View([unmasked(both)], both)
