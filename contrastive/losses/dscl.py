"""Decoupled supervised contrastive loss (DSCL): separate weights for a text's own views and its class.

Xuan and Zhang, "Decoupled Contrastive Learning for Long-Tailed Recognition", 2024. Different from `dcl` by Yeh.
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

    An anchor's other views share the weight α = 1/(1 + β), the |P| rows of other texts of its class share 1 − α.
    Weights are normalised per anchor: with only one kind of positive, that kind gets all. The partition is not
    weighted. Two views and β = |P| give SupCon.
    """

    def weigh(anchor: Int[Tensor, "c 1"], row: Int[Tensor, " m"]) -> Float[Tensor, "c m"]:
        views_of_text = anchor == row  # one of them is the anchor itself
        class_rows = (labels[anchor] == labels[row]) & (anchor != row)
        counts = (views_of_text.sum(1, keepdim=True) - 1).clamp(min=1), class_rows.sum(1, keepdim=True).clamp(min=1)
        return views_of_text / counts[0].double() / (1 + beta) + class_rows / counts[1].double() * beta / (1 + beta)

    return info_nce(views, mask, temperature, chunk, weigh)
