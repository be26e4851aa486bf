"""NT-Xent loss, from SimCLR.

Chen et al., "A Simple Framework for Contrastive Learning of Visual Representations", 2020, equation 1.
"""

from jaxtyping import Bool, Float
from torch import Tensor

from contrastive.config.facts import LossFacts
from contrastive.losses.similarity import info_nce

NTXENT_FACTS = LossFacts(positives="text")


def ntxent(
    views: Float[Tensor, "n v d"],
    *,
    mask: Bool[Tensor, "n v"] | None = None,
    temperature: float = 0.1,
    chunk: int | None = None,
) -> Float[Tensor, ""]:
    """Mean over all rows i of −log( e^{s(i,i⁺)/τ} / Σ_{a≠i} e^{s(i,a)/τ} ), i⁺ the other view of the sample.

    With two views: 2N rows with 2N − 1 candidates each, as in the paper. With more, averaged over the other views of a
    sample; rows whose other views are all masked are left out. SimCSE differs: one-way, N candidates.
    """
    return info_nce(views, mask, temperature, chunk, lambda anchor, row: anchor == row)
