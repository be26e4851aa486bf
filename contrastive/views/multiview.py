"""Three views from one pass: the sentence vectors of the last and a middle block, and dropout of the last."""

import torch

from contrastive.config.facts import ViewFacts
from contrastive.config.facts import middle as half_way
from contrastive.errors import UserError
from contrastive.views.batches import Batch
from contrastive.views.types import Encode, View, unmasked

MULTIVIEW_FACTS = ViewFacts(vectors=3, looks_into="middle")


def multiview(encode: Encode, batch: Batch, *, middle: int | None = None) -> View:
    """Return three vectors per text; `middle` is a block counted from 0, by default the one half way up."""
    encoded = encode(batch)
    blocks = len(encoded.hidden)
    chosen = half_way(blocks) if middle is None else middle
    if chosen >= blocks:
        raise UserError(f"middle is {chosen}, but this encoder has only blocks 0 to {blocks - 1}")
    last = encoded.pooled()
    vectors = torch.stack([last, encoded.pooled(chosen), encoded.dropout(last)], dim=1)
    return View([unmasked(vectors)], torch.stack([encoded.dropout(last)], dim=1))
