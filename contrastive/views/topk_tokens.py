"""Token-level views: the K tokens that CLS attends to most."""

import torch

from contrastive.config.facts import ViewFacts
from contrastive.views.batches import Batch
from contrastive.views.types import Encode, Encoded, VectorGroup, View

TOPK_TOKENS_FACTS = ViewFacts(attention=True)


def topk_tokens(encode: Encode, batch: Batch, *, k: int) -> View:
    """Return K tokens of the last block; where a text is shorter, the mask leaves fewer."""
    encoded = encode(batch)
    return View([top_tokens(encoded, -1, k)], torch.stack([encoded.dropout(encoded.pooled())], dim=1))


def top_tokens(encoded: Encoded, block: int, k: int) -> VectorGroup:
    """Return the vectors of a block's K most attended tokens, never padding, CLS or another special token."""
    attention_NS = encoded.cls_attention(block).masked_fill(encoded.batch.special, -torch.inf)
    best_NK = attention_NS.topk(min(k, attention_NS.shape[1]), dim=1)
    hidden_NSD = encoded.hidden[block]
    index_NKD = best_NK.indices[..., None].expand(-1, -1, hidden_NSD.shape[-1])
    return VectorGroup(hidden_NSD.gather(1, index_NKD), best_NK.values > -torch.inf)
