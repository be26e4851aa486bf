"""Run an encoder's frozen blocks separately from its trained blocks.

Without dropout their output for a text never changes, so it can be stored (frozen_store.py).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from contrastive.views.batches import Batch


class PrecomputedEmbeddings(nn.Module):
    """Replaces the embeddings of an encoder by the output of the blocks below."""

    def __init__(self, outputs: Tensor):
        super().__init__()
        self.outputs = outputs

    def forward(self, *_: Any, **__: Any) -> Tensor:
        return self.outputs


def frozen_modules(backbone: Any, tuned: int) -> list[nn.Module]:
    """Return the modules of an encoder below its top `tuned` blocks, which do not train."""
    model = without_adapters(backbone)
    layers = model.encoder.layer
    return [model.embeddings, *layers[: len(layers) - tuned]]


def without_adapters(backbone: Any) -> Any:
    """Return the encoder inside of a model with LoRA adapters."""
    return backbone.get_base_model() if hasattr(backbone, "get_base_model") else backbone


def has_active_dropout(backbone: Any) -> bool:
    """Return whether dropout is active in the frozen blocks, so that their output is random."""
    return bool(without_adapters(backbone).embeddings.training)


@torch.no_grad()
def outputs_below(backbone: Any, batch: Batch, count: int) -> Float[Tensor, "n s d"]:
    """Return the output of the lowest `count` blocks for a batch."""
    with restricted_to_blocks(backbone, slice(count)):
        output = backbone(input_ids=batch.input_ids, attention_mask=batch.attention_mask.long())
    return output.last_hidden_state


def outputs_above(
    backbone: Any, given: Float[Tensor, "n s d"], batch: Batch, count: int
) -> list[Float[Tensor, "n s d"]]:
    """Return the input of the blocks above the lowest `count`, and the output of each of them."""
    if count == len(without_adapters(backbone).encoder.layer):
        return [given]
    with restricted_to_blocks(backbone, slice(count, None), PrecomputedEmbeddings(given)):
        output = backbone(inputs_embeds=given, attention_mask=batch.attention_mask.long(), output_hidden_states=True)
    return list(output.hidden_states)


@contextmanager
def restricted_to_blocks(backbone: Any, chosen: slice, embeddings: nn.Module | None = None) -> Iterator[None]:
    """Restrict an encoder to some of its blocks and optionally replace its embeddings, within a `with` block."""
    model = without_adapters(backbone)
    whole, own = model.encoder.layer, model.embeddings
    model.encoder.layer, model.embeddings = whole[chosen], embeddings or own
    try:
        yield
    finally:
        model.encoder.layer, model.embeddings = whole, own
