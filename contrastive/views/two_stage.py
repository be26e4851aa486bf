"""Two views from two encoder passes with other dropout masks: R-Drop's and SimCSE's way."""

import torch

from contrastive.batches import Batch
from contrastive.views.types import Encode, View, whole


def two_stage(encode: Encode, batch: Batch) -> View:
    first, second = encode(batch), encode(batch)
    sentences = torch.stack([first.dropout(first.pooled()), second.dropout(second.pooled())], dim=1)
    return View([whole(sentences)], sentences)
