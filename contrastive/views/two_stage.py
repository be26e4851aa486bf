"""Two views by two dropout masks of the whole encoder: R-Drop's and SimCSE's way, as one pass over a doubled batch."""

from contrastive.views.batches import Batch
from contrastive.views.types import Encode, View, paired, whole


def two_stage(encode: Encode, batch: Batch) -> View:
    encoded = encode(batch.twice())
    sentences = paired(encoded.dropout(encoded.pooled()))
    return View([whole(sentences)], sentences)
