"""DeBERTa's scores of relative positions by shifted products; transformers gathers them from a table of all distances.

The backward pass of that gather, which must be reproducible, took 69 % of a step on an H100 (510 tokens, bf16). Here
the vectors of the distances between any two positions of a text are looked up before the product, in which row i then
has its scores from column length − 1 − i on: reading the rows without their last place moves each one place further.
"""

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn


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
