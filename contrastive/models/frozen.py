"""The blocks of an encoder that do not train: computed apart from those that do, since nothing of them is learnt.

Where they have no dropout either, what they give for a text is always the same.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from contrastive.views.batches import Batch


class Given(nn.Module):
    """Stands where the embeddings of an encoder are, and gives what the blocks below gave."""

    def __init__(self, below: Tensor):
        super().__init__()
        self.below = below

    def forward(self, *_: Any, **__: Any) -> Tensor:
        return self.below


def still(backbone: Any, tuned: int) -> list[nn.Module]:
    """What of an encoder with so many tuned blocks does not train."""
    model = bare(backbone)
    layers = model.encoder.layer
    return [model.embeddings, *layers[: len(layers) - tuned]]


def bare(backbone: Any) -> Any:
    """The encoder inside of what holds its adapters."""
    return backbone.get_base_model() if hasattr(backbone, "get_base_model") else backbone


def draws(backbone: Any) -> bool:
    """Whether what does not train drops out at this moment, so that it never gives the same twice."""
    return bool(bare(backbone).embeddings.training)


@torch.no_grad()
def outputs_below(backbone: Any, batch: Batch, count: int) -> Float[Tensor, "n s d"]:
    """What the lowest `count` blocks give for a batch."""
    with only(backbone, slice(count)):
        output = backbone(input_ids=batch.input_ids, attention_mask=batch.attention_mask.long())
    return output.last_hidden_state


def outputs_above(
    backbone: Any, given: Float[Tensor, "n s d"], batch: Batch, count: int
) -> list[Float[Tensor, "n s d"]]:
    """What went into the blocks above the lowest `count`, and what each of them gives."""
    if count == len(bare(backbone).encoder.layer):
        return [given]
    with only(backbone, slice(count, None), Given(given)):
        output = backbone(inputs_embeds=given, attention_mask=batch.attention_mask.long(), output_hidden_states=True)
    return list(output.hidden_states)


@contextmanager
def only(backbone: Any, chosen: slice, embeddings: nn.Module | None = None) -> Iterator[None]:
    """The encoder with some of its blocks alone, and perhaps with something else in the place of its embeddings."""
    model = bare(backbone)
    whole, own = model.encoder.layer, model.embeddings
    model.encoder.layer, model.embeddings = whole[chosen], embeddings or own
    try:
        yield
    finally:
        model.encoder.layer, model.embeddings = whole, own
