"""Unsupervised SimCSE: Gao et al., "SimCSE: Simple Contrastive Learning of Sentence Embeddings", 2021, equation 4."""

from jaxtyping import Bool, Float
from torch import Tensor

from contrastive.config.facts import LossFacts
from contrastive.losses.similarity import one_way

SIMCSE_FACTS = LossFacts(vectors=2)


def simcse(
    views: Float[Tensor, "n 2 d"],
    *,
    mask: Bool[Tensor, "n 2"] | None = None,
    temperature: float = 0.05,
    chunk: int | None = None,
) -> Float[Tensor, ""]:
    """Mean over samples of −s(i,i⁺)/τ + log Σ_j e^{s(i,j⁺)/τ}: first views against second views, one way.

    Each anchor has N candidates, its positive included; `ntxent` has 2N − 1. Samples with a masked view are neither
    anchors nor candidates. A single sample gives 0.
    """
    return one_way(views, mask, temperature, chunk)
