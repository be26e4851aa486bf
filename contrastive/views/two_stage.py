"""Two views by two dropout masks of the whole encoder (R-Drop, SimCSE), as one pass over a doubled batch."""

from contrastive.config.facts import ViewFacts
from contrastive.views.batches import Batch
from contrastive.views.types import Encode, View, as_pairs, unmasked

TWO_STAGE_FACTS = ViewFacts(vectors=2, predictions=2, passes=2)


def two_stage(encode: Encode, batch: Batch) -> View:
    encoded = encode(batch.times(2))
    sentences = as_pairs(encoded.dropout(encoded.pooled()))
    return View([unmasked(sentences)], sentences)
