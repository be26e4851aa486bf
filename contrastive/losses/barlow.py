"""Barlow Twins loss: Zbontar et al., "Barlow Twins: Self-Supervised Learning via Redundancy Reduction", 2021."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from contrastive.config.facts import LossFacts
from contrastive.losses.heads import mlp
from contrastive.losses.similarity import pairs

BARLOW_FACTS = LossFacts(vectors=2)

EPSILON = 1e-5  # added to the variance before the batch is normalised


class Barlow(nn.Module):
    """Barlow Twins on the outputs of a three-layer projector; each layer is `projector` wide."""

    def __init__(self, size: int, *, projector: int = 1024):
        super().__init__()
        self.projector = mlp(size, projector, projector, projector, bias=False)

    def forward(
        self, views: Float[Tensor, "n 2 d"], *, mask: Bool[Tensor, "n 2"] | None = None, redundancy: float = 0.0051
    ) -> Float[Tensor, ""]:
        with torch.autocast(views.device.type, enabled=False):
            both = pairs(views, mask)
            if len(both) < 2:  # a single sample has no correlation
                return both.sum() * 0.0
            return barlow(torch.stack([self.projector(both[:, 0]), self.projector(both[:, 1])], dim=1), redundancy)


def barlow(views: Float[Tensor, "n 2 d"], redundancy: float) -> Float[Tensor, ""]:
    """Σᵢ (1 − Cᵢᵢ)² + λ Σ_{i≠j} Cᵢⱼ², C the correlation between the dimensions of the two views over the batch."""
    centred = views - views.mean(0)
    scaled = centred / (centred.pow(2).mean(0) + EPSILON).sqrt()
    correlation_DD = scaled[:, 0].T @ scaled[:, 1] / len(views)
    same_D = correlation_DD.diagonal()
    return (1 - same_D).pow(2).sum() + redundancy * (correlation_DD.pow(2).sum() - same_D.pow(2).sum())
