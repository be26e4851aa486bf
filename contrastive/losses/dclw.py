"""Weighted decoupled contrastive learning (DCLW): DCL with a von-Mises-Fisher weight on the positive.

Yeh et al., "Decoupled Contrastive Learning", 2021, equation 6 and section 3.2.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from contrastive.config.facts import LossFacts
from contrastive.losses.similarity import exact, info_nce

DCLW_FACTS = LossFacts(vectors=2)


def dclw(
    views: Float[Tensor, "n 2 d"],
    *,
    mask: Bool[Tensor, "n 2"] | None = None,
    temperature: float = 0.1,
    sigma: float = 0.5,
    chunk: int | None = None,
) -> Float[Tensor, ""]:
    """`dcl` with the positive s(i,i⁺)/τ multiplied by 2 − e^{s(i,i⁺)/σ} / mean e^{s/σ}, which has no gradient.

    The mean is over the samples of the batch: pairs that already agree more than others get a smaller weight.
    """
    return info_nce(
        views, mask, temperature, chunk,
        weigh=lambda anchor, row: anchor == row,
        among=lambda anchor, row: anchor != row,
        pull=positive_weights(views, mask, sigma),
    )  # fmt: skip


@torch.no_grad()
def positive_weights(
    views: Float[Tensor, "n 2 d"], mask: Bool[Tensor, "n 2"] | None, sigma: float
) -> Float[Tensor, " n"]:
    with torch.autocast(views.device.type, enabled=False):
        first_ND, second_ND = F.normalize(exact(views), dim=-1).unbind(1)
        agreement_N = (first_ND * second_ND).sum(-1) / sigma
        if mask is None:
            return 2 - len(views) * agreement_N.softmax(0)
        pair_N = mask.all(1)
        share_N = agreement_N.masked_fill(~pair_N, -torch.inf).softmax(0)
        return torch.where(pair_N, 2 - pair_N.sum() * share_N, torch.zeros_like(share_N))
