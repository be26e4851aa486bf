"""Supervised contrastive loss (SupCon), with the mean over positives outside the logarithm (L_out).

Khosla et al., "Supervised Contrastive Learning", 2020, equation 2.
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor

from contrastive.config.facts import LossFacts
from contrastive.losses.similarity import info_nce

SUPCON_FACTS = LossFacts(positives="class")


def supcon(
    views: Float[Tensor, "n v d"],
    *,
    labels: Int[Tensor, " n"],
    mask: Bool[Tensor, "n v"] | None = None,
    temperature: float = 0.1,
    chunk: int | None = None,
) -> Float[Tensor, ""]:
    """Mean over anchors i of −1/|P(i)| Σ_p log( e^{s(i,p)/τ} / Σ_{a≠i} e^{s(i,a)/τ} ), s the cosine.

    Every unmasked vector is an anchor; its positives are the other unmasked vectors of its class, including other views
    of the same text. Anchors without a positive are left out of the mean; a batch without positives gives exactly 0,
    with a zero gradient.
    """
    return info_nce(views, mask, temperature, chunk, lambda anchor, row: labels[anchor] == labels[row])
