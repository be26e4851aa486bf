"""What frozen blocks gave for a batch, for whoever asks for the very same again: the second pass of a step, a batch
that is encoded in parts and then again, and the other cells that train together in this process."""

import hashlib
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from contrastive.models import frozen
from contrastive.models.random_state import random_state, set_random_state
from contrastive.views.batches import Batch


class Passes:
    """Remembers passes by the tokens and the random numbers that they began with, so that no bit depends on it.

    Those who share it have the same frozen weights. Without `sharing` each pass is computed.
    """

    def __init__(self, sharing: bool = True) -> None:
        self.sharing = sharing
        self.remembered: dict[bytes, tuple[Float[Tensor, "n s d"], list[Tensor]]] = {}

    def __call__(self, backbone: Any, batch: Batch, count: int) -> Float[Tensor, "n s d"]:
        if batch.doubled:  # others, or the other half, may want the same of one half; shared or not, it draws the same
            return torch.cat([self(backbone, half, count) for half in batch.halves()])
        if not self.sharing or not backbone.training:  # to evaluate, each text is looked at once, and all of them
            return frozen.outputs_below(backbone, batch, count)
        draws = frozen.draws(backbone)
        key = name(batch, count, random_state() if draws else [])
        if key not in self.remembered:
            given = frozen.outputs_below(backbone, batch, count)
            self.remembered[key] = given, random_state() if draws else []
        given, then = self.remembered[key]
        if then:
            set_random_state(then)
        return given

    def forget(self) -> None:
        """Call between two steps: no one asks for the passes of an earlier one."""
        self.remembered.clear()


def name(batch: Batch, count: int, drawn: list[Tensor]) -> bytes:
    content = hashlib.blake2b(str((count, *batch.input_ids.shape)).encode(), digest_size=16)
    for tensor in (batch.input_ids, batch.attention_mask, *drawn):
        content.update(tensor.cpu().contiguous().view(torch.uint8).numpy().data)
    return content.digest()
