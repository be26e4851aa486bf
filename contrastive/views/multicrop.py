"""Multi-crop of SwAV (Caron et al., 2020): two views of an image, and small crops of it of up to half the size."""

import torch

from contrastive.config.facts import ViewFacts
from contrastive.views.batches import Batch
from contrastive.views.types import Encode, View, as_pairs, unmasked

MULTICROP_FACTS = ViewFacts(predictions=2, passes=3)  # four crops of a quarter of the pixels take as long as one pass


def multicrop(
    encode: Encode, batch: Batch, small: Encode, *, crops: int = 4, area: tuple[float, float] = (0.05, 0.14)
) -> View:
    """Return two vectors of each image, followed by those of its small crops, which keep `area` of it."""
    encoded = encode(batch.times(2))
    vectors = encoded.pooled()
    parts = small(batch.times(crops), area=area).pooled()
    whole = torch.cat([as_pairs(vectors), torch.stack(parts.chunk(crops), 1)], 1)
    return View([unmasked(whole)], as_pairs(encoded.dropout(vectors)))
