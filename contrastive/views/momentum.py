"""Momentum views: two passes of the encoder, and two of its slow copy that follows it: MoCo's and BYOL's way."""

import torch

from contrastive.batches import Batch
from contrastive.views.types import Encode, Group, View


def momentum(encode: Encode, batch: Batch, slow: Encode) -> View:
    """The vectors of two passes, and as their `targets` those of two passes of the copy, without gradient."""
    first, second = encode(batch), encode(batch)
    vectors = torch.stack([first.pooled(), second.pooled()], dim=1)
    with torch.no_grad():
        targets = torch.stack([slow(batch).pooled(), slow(batch).pooled()], dim=1)
    sentences = torch.stack([first.dropout(vectors[:, 0]), second.dropout(vectors[:, 1])], dim=1)
    return View([Group(vectors, torch.ones_like(vectors[..., 0], dtype=torch.bool), targets)], sentences)
