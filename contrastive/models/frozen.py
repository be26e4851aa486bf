"""Run an encoder's frozen blocks separately from its trained blocks.

Without dropout their output for a text never changes, so it can be stored (frozen_store.py).
"""

import hashlib
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


def random_state() -> list[Tensor]:
    return [torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [])]


def set_random_state(state: list[Tensor]) -> None:
    torch.set_rng_state(state[0])
    if len(state) > 1:
        torch.cuda.set_rng_state_all(state[1:])


class PassCache:
    """Caches passes through frozen blocks by tokens and random state, so that results are the same bits without it.

    All users of a cache have the same frozen weights. With `sharing=False` each pass is computed.
    """

    def __init__(self, sharing: bool = True) -> None:
        self.sharing = sharing
        self.remembered: dict[bytes, tuple[Float[Tensor, "n s d"], list[Tensor]]] = {}

    def __call__(self, backbone: Any, batch: Batch, count: int) -> Float[Tensor, "n s d"]:
        if batch.doubled:  # a half may be asked for alone later, and must draw the same
            return torch.cat([self(backbone, half, count) for half in batch.halves()])
        if not self.sharing or not backbone.training:  # an evaluation encodes each text once
            return outputs_below(backbone, batch, count)
        drops = has_active_dropout(backbone)
        key = pass_key(batch, count, random_state() if drops else [])
        if key not in self.remembered:
            outputs = outputs_below(backbone, batch, count)
            self.remembered[key] = outputs, random_state() if drops else []
        outputs, state_after = self.remembered[key]
        if state_after:
            set_random_state(state_after)
        return outputs

    def forget(self) -> None:
        """Clear the cache; call it between steps."""
        self.remembered.clear()


def pass_key(batch: Batch, count: int, drawn: list[Tensor]) -> bytes:
    content = hashlib.blake2b(str((count, *batch.input_ids.shape)).encode(), digest_size=16)
    for tensor in (batch.input_ids, batch.attention_mask, *drawn):
        content.update(tensor.cpu().contiguous().view(torch.uint8).numpy().data)
    return content.digest()
