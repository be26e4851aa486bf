"""Registry of losses: one file and one line in `LOSSES` each; see CONTRIBUTING.md.

A loss is a function of views or logits. One with state (a queue, prototypes) or its own head is an `nn.Module`, built
with the size of the vectors and called like the others.
"""

from collections.abc import Callable
from typing import Any

from contrastive.losses.align_uniform import align_uniform
from contrastive.losses.barlow import Barlow
from contrastive.losses.bert_ct import bert_ct
from contrastive.losses.byol import Byol
from contrastive.losses.ce import ce
from contrastive.losses.clear import clear
from contrastive.losses.dcl import dcl
from contrastive.losses.dclw import dclw
from contrastive.losses.declutr import declutr
from contrastive.losses.dropout_ntxent import dropout_ntxent
from contrastive.losses.dscl import dscl
from contrastive.losses.mlm import mlm
from contrastive.losses.moco import Moco
from contrastive.losses.ntxent import ntxent
from contrastive.losses.rdrop import rdrop
from contrastive.losses.sccl import Sccl
from contrastive.losses.simclr import Simclr
from contrastive.losses.simcse import simcse
from contrastive.losses.simcse_sup import simcse_sup
from contrastive.losses.supcon import supcon
from contrastive.losses.supcon_in import supcon_in
from contrastive.losses.swav import Swav
from contrastive.losses.vicreg import Vicreg

LOSSES: dict[str, Callable[..., Any]] = {
    "ce": ce,
    "rdrop": rdrop,
    "supcon": supcon,
    "supcon_in": supcon_in,
    "dscl": dscl,
    "dcl": dcl,
    "dclw": dclw,
    "simcse": simcse,
    "simcse_sup": simcse_sup,
    "ntxent": ntxent,
    "simclr": Simclr,
    "align_uniform": align_uniform,
    "dropout-ntxent": dropout_ntxent,
    "moco": Moco,
    "byol": Byol,
    "swav": Swav,
    "barlow": Barlow,
    "vicreg": Vicreg,
    "bert_ct": bert_ct,
    "sccl": Sccl,
    "declutr": declutr,
    "clear": clear,
    "mlm": mlm,
}

USUAL_LOSS = "ce"  # the default of an experiment, and of the baseline of its sections
