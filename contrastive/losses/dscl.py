"""Decoupled supervised contrastive loss: own views and class mates weighed apart.

Xuan and Zhang, "Decoupled Contrastive Learning for Long-Tailed Recognition", 2024. Not the `dcl` of Yeh et al.
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor

from contrastive.losses.similarity import info_nce


def dscl(
    views: Float[Tensor, "n v d"],
    *,
    labels: Int[Tensor, " n"],
    mask: Bool[Tensor, "n v"] | None = None,
    temperature: float = 0.07,
    beta: float = 8.0,
    chunk: int | None = None,
) -> Float[Tensor, ""]:
    """Mean over anchors of Σ_p w(i,p) · −log( e^{s(i,p)/τ} / Σ_{a≠i} e^{s(i,a)/τ} ), s the cosine.

    The own other views share the weight α = 1/(1 + β), the |P| class mates share 1 − α, and the weights of an anchor
    are normalised, so that an anchor with only one kind of positive weighs that kind alone. With two views and β = |P|
    this is SupCon. The partition is not weighted.
    """

    def weigh(anchor: Int[Tensor, "c 1"], row: Int[Tensor, " m"], other: Bool[Tensor, "c m"]) -> Float[Tensor, "c m"]:
        own = (anchor == row) & other
        mates = (labels[anchor] == labels[row]) & (anchor != row)
        share = own.sum(1, keepdim=True).clamp(min=1), mates.sum(1, keepdim=True).clamp(min=1)
        return own / share[0].double() / (1 + beta) + mates / share[1].double() * beta / (1 + beta)

    return info_nce(views, mask, temperature, chunk, weigh)
