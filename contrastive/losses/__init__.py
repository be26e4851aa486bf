"""Losses: functions of views or logits. One file and one line each; see CONTRIBUTING.md."""

from contrastive.losses.ce import ce
from contrastive.losses.rdrop import rdrop
from contrastive.losses.supcon import supcon

LOSSES = {
    "ce": ce,
    "rdrop": rdrop,
    "supcon": supcon,
}
