"""Compute parts of attention that transformers lacks or computes slowly: the row of CLS, DeBERTa's relative scores.

The row of CLS, its attention to each token, comes from a block's query and keys. `output_attentions=True` would force
slow attention and store heads × length² numbers per block, although `topk_tokens` needs one row. Equal to that row in
eval mode; never part of the graph.

DeBERTa's scores come from shifted products; transformers gathers them from a table of all distances. The backward pass
of that gather, which must be reproducible, took 69 % of a step on an H100 (510 tokens, bf16). Here the vectors of the
distances between any two positions of a text are looked up before the product, in which row i then has its scores from
column length − 1 − i on: reading the rows without their last place moves each one place further.
"""

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from contrastive.errors import UserError
from contrastive.models import tuning

SUPPORTED = ("bert", "roberta", "deberta-v2")


@torch.no_grad()
def cls_row(
    backbone: Any, block: int, inputs: Float[Tensor, "n s d"], mask: Bool[Tensor, "n s"]
) -> Float[Tensor, "n s"]:
    """Return the attention of position 0 to each position in a block with this input, averaged over its heads."""
    model = tuning.without_adapters(backbone)
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


def use_shifted_positions(backbone: nn.Module) -> None:
    """Let each DeBERTa attention of a model compute the scores of relative positions here; others stay as they are."""
    attentions: list[Any] = [part for part in backbone.modules() if hasattr(part, "disentangled_attention_bias")]
    for attention in attentions:
        attention.disentangled_attention_bias = partial(position_scores, attention)


def position_scores(
    attention: Any,
    query_NSD: Float[Tensor, "n s d"],
    key_NSD: Float[Tensor, "n s d"],
    relative_pos: Int64[Tensor, "1 s s"],
    rel_embeddings: Float[Tensor, "r e"],
    scale_factor: int,
) -> Float[Tensor, "n s s"] | int:
    """Return content → position plus position → content scores, for n = texts × heads."""
    span, kinds = attention.pos_ebd_size, attention.pos_att_type
    bucket_SS = relative_pos[0]
    bucket_W = torch.cat([bucket_SS[:, 0].flip(0), bucket_SS[0, 1:]])  # of the distances length − 1 … 1 − length
    scale = (query_NSD.shape[-1] * scale_factor) ** 0.5

    def scores(rows_NSD: Tensor, project: nn.Module, place_W: Tensor) -> Tensor:
        table_RE = project(rel_embeddings[: 2 * span]) / scale
        place_WE = F.embedding(place_W.clamp(0, 2 * span - 1), table_RE)
        place_HWD = place_WE.unflatten(-1, (attention.num_attention_heads, -1)).transpose(0, 1)
        texts = len(rows_NSD) // attention.num_attention_heads
        return shifted(torch.bmm(rows_NSD, place_HWD.repeat(texts, 1, 1).transpose(1, 2)))

    total: Tensor | int = 0
    if "c2p" in kinds:
        project = attention.key_proj if attention.share_att_key else attention.pos_key_proj
        total = total + scores(query_NSD, project, span + bucket_W)
    if "p2c" in kinds:
        project = attention.query_proj if attention.share_att_key else attention.pos_query_proj
        total = total + scores(key_NSD, project, span - bucket_W).transpose(1, 2)
    return total


def shifted(wide: Float[Tensor, "n s w"]) -> Float[Tensor, "n s s"]:
    """Return the columns length − 1 − i to 2·length − 2 − i of each row i, a view."""
    n, s, w = wide.shape
    return wide.flatten(1)[:, s - 1 : s - 1 + s * (w - 1)].view(n, s, w - 1)[:, :, :s]
