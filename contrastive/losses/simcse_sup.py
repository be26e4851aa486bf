"""Supervised SimCSE loss with hard negatives: Gao et al., "SimCSE: Simple Contrastive Learning of Sentence Embeddings",
2021, equation 5."""

from jaxtyping import Bool, Float
from torch import Tensor

from contrastive.config.facts import LossFacts
from contrastive.losses.similarity import one_way

SIMCSE_SUP_FACTS = LossFacts(vectors=2, usual_view="pair")


def simcse_sup(
    views: Float[Tensor, "n 2 d"],
    *,
    negatives: Float[Tensor, "n d"],
    mask: Bool[Tensor, "n 2"] | None = None,
    temperature: float = 0.05,
    chunk: int | None = None,
) -> Float[Tensor, ""]:
    """Mean over samples of −s(i,i⁺)/τ + log Σ_j [e^{s(i,j⁺)/τ} + e^{s(i,j⁻)/τ}]; views: a text and its positive.

    Every anchor has the hard negatives of all samples as candidates. Samples with a masked view are neither anchors nor
    candidates.
    """
    return one_way(views, mask, temperature, chunk, negatives)
