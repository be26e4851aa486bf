"""Supervised contrastive loss, the form with the mean over positives outside the logarithm (L_out).

Khosla et al., "Supervised Contrastive Learning", 2020, equation 2.
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor

from contrastive.config.facts import LossFacts
from contrastive.losses.similarity import info_nce

FACTS = LossFacts(positives="class")


def supcon(
    views: Float[Tensor, "n v d"],
    *,
    labels: Int[Tensor, " n"],
    mask: Bool[Tensor, "n v"] | None = None,
    temperature: float = 0.1,
    chunk: int | None = None,
) -> Float[Tensor, ""]:
    """Mean over anchors i of −1/|P(i)| Σ_p log( e^{s(i,p)/τ} / Σ_{a≠i} e^{s(i,a)/τ} ), s the cosine.

    Every vector that the mask keeps is an anchor; its positives are the other kept vectors of its class, its own
    views among them. An anchor without a positive contributes nothing and leaves the mean; without any positive in
    the batch the loss is exactly 0, with a zero gradient.
    """
    return info_nce(views, mask, temperature, chunk, lambda anchor, row, _: labels[anchor] == labels[row])
