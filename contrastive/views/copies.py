"""Two copies of the encoder, which begin alike and train apart: Contrastive Tension's way."""

import torch

from contrastive.config.facts import ViewFacts
from contrastive.views.batches import Batch
from contrastive.views.types import Encode, View, unmasked

FACTS = ViewFacts(vectors=2, passes=2)


def copies(encode: Encode, batch: Batch, twin: Encode) -> View:
    """A text's vector by each copy. The head reads, and the evaluation measures, that of the first."""
    encoded = encode(batch)
    sentence = encoded.pooled()
    vectors = torch.stack([sentence, twin(batch).pooled()], dim=1)
    return View([unmasked(vectors)], torch.stack([encoded.dropout(sentence)], dim=1))
