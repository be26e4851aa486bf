"""Blocks that compute their products, sums and norms for tokens alone, where the plain way does so for padding too.

Only attention needs texts side by side. Random numbers are drawn for padding as ever, so that dropout is the same; what
a block gives for padding is 0, and nobody reads it.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

BLOCKS = ("BertLayer", "RobertaLayer", "XLMRobertaLayer")
DROPOUTS = 3  # of a block: of attention, and of what is added twice; those of adapters would draw otherwise
WORTH = 0.9  # above this share of tokens, copies cost more than they save


@dataclass(frozen=True)
class Places:
    """Where the t tokens of a batch stand among its n × s places."""

    shape: torch.Size
    rows: Int64[Tensor, " t"]

    def of(self, padded: Float[Tensor, "n s d"]) -> Float[Tensor, "t d"]:
        return padded.flatten(0, 1).index_select(0, self.rows)

    def padded(self, values: Float[Tensor, "t d"]) -> Float[Tensor, "n s d"]:
        whole = values.new_zeros(self.shape.numel(), values.shape[1])
        return whole.index_copy(0, self.rows, values).unflatten(0, self.shape)


def unpad(model: nn.Module) -> None:
    for block in model.modules():
        if type(block).__name__ in BLOCKS and not isinstance(block, Unpadded) and _plain(block):
            block.__class__ = type(type(block).__name__, (Unpadded, type(block)), {})


def _plain(block: Any) -> bool:
    """An encoder's, by SDPA, without a dropout of adapters."""
    attention = block.attention.self
    by_itself = not block.is_decoder and block.chunk_size_feed_forward == 0
    drop = sum(isinstance(module, nn.Dropout) for module in block.modules())
    return by_itself and drop == DROPOUTS and attention.config._attn_implementation == "sdpa"


class Unpadded(nn.Module):
    """In front of the class of a block."""

    attention: Any
    intermediate: Any
    output: Any

    def forward(self, hidden_states: Tensor, attention_mask: Tensor | None = None, *more: Any, **named: Any) -> Any:
        if attention_mask is None or attention_mask.dtype != torch.bool or hidden_states.is_cuda:
            return super().forward(hidden_states, attention_mask, *more, **named)
        real_NS: Bool[Tensor, "n s"] = attention_mask[:, 0, 0]
        places = Places(real_NS.shape, real_NS.flatten().nonzero().squeeze(1))
        if len(places.rows) > WORTH * real_NS.numel():
            return super().forward(hidden_states, attention_mask, *more, **named)
        x_TD = places.of(hidden_states)
        x_TD = added(self.attention.output, attend(self.attention.self, x_TD, attention_mask, places), x_TD, places)
        return places.padded(added(self.output, self.intermediate(x_TD), x_TD, places))


def attend(part: Any, x: Float[Tensor, "t d"], mask: Bool[Tensor, "n 1 s s"], places: Places) -> Float[Tensor, "t d"]:
    heads = [part.num_attention_heads, part.attention_head_size]
    query, key, value = (
        places.padded(project(x)).unflatten(-1, heads).transpose(1, 2) for project in (part.query, part.key, part.value)
    )
    rate = part.dropout.p if part.training else 0.0
    read = F.scaled_dot_product_attention(query, key, value, mask, rate, scale=part.scaling)
    return places.of(read.transpose(1, 2).flatten(2))


def added(part: Any, x: Float[Tensor, "t i"], to: Float[Tensor, "t d"], places: Places) -> Float[Tensor, "t d"]:
    """What a block's part makes of x, with dropout, added to what went in."""
    made = part.dense(x)
    if part.dropout.training and part.dropout.p > 0:
        kept = made.new_empty(*places.shape, made.shape[1]).bernoulli_(1 - part.dropout.p).div_(1 - part.dropout.p)
        made = made * places.of(kept)
    return part.LayerNorm(made + to)
