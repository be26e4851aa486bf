"""Multi-layer contrast: one contrastive term for each chosen block, averaged."""

from typing import Literal

import torch

from contrastive.config.facts import FactsVariant, ViewFacts
from contrastive.errors import UserError
from contrastive.views.batches import Batch
from contrastive.views.topk_tokens import top_tokens
from contrastive.views.types import Encode, Encoded, VectorGroup, View, unmasked

LAYERS_FACTS = ViewFacts(
    vectors=2,
    looks_into="layers",
    unread=("k",),
    variants=(FactsVariant("level", "token", ViewFacts(looks_into="layers", attention=True)),),
)


def layers(
    encode: Encode, batch: Batch, *, layers: tuple[int, ...], level: Literal["sentence", "token"], k: int
) -> View:
    """Return a group per block: at sentence level the block's sentence vector and a dropout of it, at token level its K
    most attended tokens. Block i means its output, with its own attention."""
    encoded = encode(batch)
    if wrong := [block for block in layers if block >= len(encoded.hidden)]:
        raise UserError(f"layers names {wrong}, but this encoder has only blocks 0 to {len(encoded.hidden) - 1}")
    groups = [top_tokens(encoded, block, k) if level == "token" else sentence_group(encoded, block) for block in layers]
    return View(groups, torch.stack([encoded.dropout(encoded.pooled())], dim=1))


def sentence_group(encoded: Encoded, block: int) -> VectorGroup:
    vector = encoded.pooled(block)
    return unmasked(torch.stack([vector, encoded.dropout(vector)], dim=1))
