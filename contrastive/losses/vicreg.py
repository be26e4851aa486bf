"""VICReg: Bardes et al., "VICReg: Variance-Invariance-Covariance Regularization for Self-Supervised Learning", 2022."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from contrastive.config.facts import LossFacts
from contrastive.losses.heads import mlp
from contrastive.losses.similarity import pairs

VICREG_FACTS = LossFacts(vectors=2)

INVARIANCE, VARIANCE, COVARIANCE = 25.0, 25.0, 1.0
EPSILON = 1e-4  # added to the variance before the square root


class Vicreg(nn.Module):
    """VICReg on the outputs of a three-layer projector; each layer is `projector` wide."""

    def __init__(self, size: int, *, projector: int = 1024):
        super().__init__()
        self.projector = mlp(size, projector, projector, projector, bias=False)

    def forward(self, views: Float[Tensor, "n 2 d"], *, mask: Bool[Tensor, "n 2"] | None = None) -> Float[Tensor, ""]:
        with torch.autocast(views.device.type, enabled=False):
            both = pairs(views, mask)
            if len(both) < 2:  # a single sample has no variance
                return both.sum() * 0.0
            return vicreg(torch.stack([self.projector(both[:, 0]), self.projector(both[:, 1])], dim=1))


def vicreg(views: Float[Tensor, "n 2 d"]) -> Float[Tensor, ""]:
    """25 · mean (x − y)² + 25 · ½ Σ_views mean_d max(0, 1 − std_d) + 1 · Σ_views Σ_{d≠e} Cov_de² / D."""
    invariance = (views[:, 0] - views[:, 1]).pow(2).mean()
    deviation_VD = (views.var(0) + EPSILON).sqrt()
    centred = views - views.mean(0)
    covariance_VDD = torch.einsum("nvd,nve->vde", centred, centred) / (len(views) - 1)
    squares = covariance_VDD.pow(2).sum((1, 2)) - covariance_VDD.diagonal(dim1=1, dim2=2).pow(2).sum(1)
    return (
        INVARIANCE * invariance
        + VARIANCE * torch.relu(1 - deviation_VD).mean(1).sum() / 2
        + COVARIANCE * squares.sum() / views.shape[-1]
    )
