"""Two copies of the encoder that start equal and train separately, as in Contrastive Tension."""

import torch

from contrastive.config.facts import ViewFacts
from contrastive.views.batches import Batch
from contrastive.views.types import Encode, View, unmasked

COPIES_FACTS = ViewFacts(vectors=2, passes=2)


def copies(encode: Encode, batch: Batch, twin: Encode) -> View:
    """Return a text's vector by each copy. The head and the evaluation read the first copy's."""
    encoded = encode(batch)
    sentence = encoded.pooled()
    vectors = torch.stack([sentence, twin(batch).pooled()], dim=1)
    return View([unmasked(vectors)], torch.stack([encoded.dropout(sentence)], dim=1))
