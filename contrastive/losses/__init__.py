"""Registry of losses: one line in `LOSSES` each; see CONTRIBUTING.md.

A loss is a function of views or logits. One with state (a queue, prototypes) or its own head is an `nn.Module`, built
with the size of the vectors and called like the others.
"""

from collections.abc import Callable
from typing import Any

from contrastive.losses.cross_entropy import ce, mlm, rdrop
from contrastive.losses.graded import angle, cosent
from contrastive.losses.guided import DistilCos, distil_kl, gist, margin_mse
from contrastive.losses.learned_scale import Clip, Siglip
from contrastive.losses.ntxent import clear, dcl, dclw, declutr, dropout_ntxent, ntxent, simcse, simcse_sup
from contrastive.losses.pairwise import align_uniform, bert_ct
from contrastive.losses.projected import Barlow, Byol, Moco, Sccl, Simclr, Swav, Vicreg
from contrastive.losses.supcon import dscl, supcon, supcon_in

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
    "siglip": Siglip,
    "clip": Clip,
    "gist": gist,
    "margin_mse": margin_mse,
    "distil_kl": distil_kl,
    "distil_cos": DistilCos,
    "cosent": cosent,
    "angle": angle,
    "sccl": Sccl,
    "declutr": declutr,
    "clear": clear,
    "mlm": mlm,
}

USUAL_LOSS = "ce"  # the default of an experiment, and of the baseline of its sections
