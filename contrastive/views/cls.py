"""One view: the sentence vector itself. Its positives are the other samples of its class."""

import torch

from contrastive.config.facts import ViewFacts
from contrastive.views.batches import Batch
from contrastive.views.types import Encode, View, unmasked

CLS_FACTS = ViewFacts(vectors=1)


def cls(encode: Encode, batch: Batch) -> View:
    encoded = encode(batch)
    sentence = encoded.pooled()
    return View([unmasked(torch.stack([sentence], dim=1))], torch.stack([encoded.dropout(sentence)], dim=1))
