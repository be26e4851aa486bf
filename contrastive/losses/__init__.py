"""Losses: functions of views or logits. One file and one line each; see CONTRIBUTING.md."""

from collections.abc import Callable

from torch import Tensor

from contrastive.losses.align_uniform import align_uniform
from contrastive.losses.ce import ce
from contrastive.losses.dcl import dcl
from contrastive.losses.dclw import dclw
from contrastive.losses.dropout_ntxent import dropout_ntxent
from contrastive.losses.dscl import dscl
from contrastive.losses.ntxent import ntxent, ntxent_floor
from contrastive.losses.rdrop import rdrop
from contrastive.losses.simcse import simcse
from contrastive.losses.supcon import supcon, supcon_floor
from contrastive.losses.supcon_in import supcon_in

LOSSES: dict[str, Callable[..., Tensor]] = {
    "ce": ce,
    "rdrop": rdrop,
    "supcon": supcon,
    "supcon_in": supcon_in,
    "dscl": dscl,
    "dcl": dcl,
    "dclw": dclw,
    "simcse": simcse,
    "ntxent": ntxent,
    "align_uniform": align_uniform,
    "dropout-ntxent": dropout_ntxent,
}

# The smallest value that a loss can reach on a batch, where that is known: what makes losses of different K comparable.
FLOORS: dict[str, Callable[..., Tensor]] = {
    "supcon": supcon_floor,
    "supcon_in": supcon_floor,
    "ntxent": ntxent_floor,
}
