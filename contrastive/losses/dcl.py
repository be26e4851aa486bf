"""Decoupled contrastive learning (DCL): InfoNCE without the sample itself in the denominator.

Yeh et al., "Decoupled Contrastive Learning", 2021, equation 6. Different from `dscl` by Xuan and Zhang.
"""

from jaxtyping import Bool, Float
from torch import Tensor

from contrastive.losses.similarity import info_nce


def dcl(
    views: Float[Tensor, "n v d"],
    *,
    mask: Bool[Tensor, "n v"] | None = None,
    temperature: float = 0.1,
    chunk: int | None = None,
) -> Float[Tensor, ""]:
    """Mean over rows i of −s(i,i⁺)/τ + log Σ_a e^{s(i,a)/τ}, a the rows of other samples, i⁺ the sample's other view.

    With more than two views, averaged over i⁺. Rows without another view or without other samples are left out.
    """
    return info_nce(
        views, mask, temperature, chunk,
        weigh=lambda anchor, row: anchor == row,
        among=lambda anchor, row: anchor != row,
    )  # fmt: skip
