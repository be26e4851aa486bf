"""Attention of CLS to each token, computed from a block's query and keys.

`output_attentions=True` would force slow attention and store heads × length² numbers per block, although
`topk_tokens` needs one row. Equal to that row in eval mode; never part of the graph.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from contrastive.errors import UserError
from contrastive.models import frozen

SUPPORTED = ("bert", "roberta", "deberta-v2")


@torch.no_grad()
def cls_row(
    backbone: Any, block: int, inputs: Float[Tensor, "n s d"], mask: Bool[Tensor, "n s"]
) -> Float[Tensor, "n s"]:
    """Return the attention of position 0 to each position in a block with this input, averaged over its heads."""
    model = frozen.without_adapters(backbone)
    kind = model.config.model_type
    if kind not in SUPPORTED:
        raise UserError(
            f"token views need CLS attention, which is supported for {', '.join(SUPPORTED)}, not for {kind}; use a "
            "sentence view"
        )
    attention = model.encoder.layer[block].attention.self
    is_deberta = kind == "deberta-v2"
    score_NHS = disentangled_scores(attention, model, inputs) if is_deberta else scaled_scores(attention, inputs)
    return score_NHS.float().masked_fill(~mask[:, None], -torch.inf).softmax(-1).mean(1)


def scaled_scores(attention: Any, inputs: Float[Tensor, "n s d"]) -> Float[Tensor, "n h s"]:
    heads = attention.num_attention_heads
    query_NHD, key_NSHD = split_heads(attention.query(inputs[:, 0]), heads), split_heads(attention.key(inputs), heads)
    return torch.einsum("nhd,nshd->nhs", query_NHD, key_NSHD) * attention.scaling


def disentangled_scores(attention: Any, model: Any, inputs: Float[Tensor, "n s d"]) -> Float[Tensor, "n h s"]:
    """Return row 0 of DeBERTa's scores: content → content, content → position and position → content."""
    heads, kinds = attention.num_attention_heads, attention.pos_att_type
    query_NHD = split_heads(attention.query_proj(inputs[:, 0]), heads)
    key_NSHD = split_heads(attention.key_proj(inputs), heads)
    scale = (query_NHD.shape[-1] * (1 + ("c2p" in kinds) + ("p2c" in kinds))) ** 0.5
    score_NHS = torch.einsum("nhd,nshd->nhs", query_NHD, key_NSHD)
    if not attention.relative_attention:
        return score_NHS / scale
    span = attention.pos_ebd_size
    away_S = model.encoder.get_rel_pos(inputs, inputs[:, :1])[0, 0]  # bucket of (0 − key position)
    row_S = (away_S + span).clamp(0, 2 * span - 1)
    table_RD = model.encoder.get_rel_embedding()[: 2 * span].to(inputs.dtype)
    if "c2p" in kinds:
        project = attention.key_proj if attention.share_att_key else attention.pos_key_proj
        position_SHD = split_heads(project(table_RD), heads)[row_S]
        score_NHS = score_NHS + torch.einsum("nhd,shd->nhs", query_NHD, position_SHD)
    if "p2c" in kinds:
        project = attention.query_proj if attention.share_att_key else attention.pos_query_proj
        position_SHD = split_heads(project(table_RD), heads)[row_S]
        score_NHS = score_NHS + torch.einsum("nshd,shd->nhs", key_NSHD, position_SHD)
    return score_NHS / scale


def split_heads(vectors: Tensor, heads: int) -> Tensor:
    """[… heads·d] → [… heads, d]"""
    return vectors.unflatten(-1, (heads, -1))
