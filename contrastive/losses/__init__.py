"""Losses: functions of views or logits. One file and one line each; see CONTRIBUTING.md."""

from collections.abc import Callable

from torch import Tensor

from contrastive.losses.ce import ce
from contrastive.losses.rdrop import rdrop
from contrastive.losses.supcon import supcon, supcon_floor

LOSSES: dict[str, Callable[..., Tensor]] = {
    "ce": ce,
    "rdrop": rdrop,
    "supcon": supcon,
}

# The smallest value that a loss can reach on a batch, where that is known: what makes losses of different K comparable.
FLOORS: dict[str, Callable[..., Tensor]] = {
    "supcon": supcon_floor,
}
