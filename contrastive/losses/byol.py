"""BYOL loss: Grill et al., "Bootstrap Your Own Latent: A New Approach to Self-Supervised Learning", 2020."""

import copy
import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from contrastive.config.facts import LossFacts
from contrastive.losses.heads import mlp
from contrastive.losses.similarity import pairs

BYOL_FACTS = LossFacts(vectors=2, usual_view="momentum")


class Byol(nn.Module):
    """Predict the momentum projection of one view from the projection of the other."""

    def __init__(self, size: int, *, projector: int = 1024, projection: int = 256, decay: float = 0.996):
        super().__init__()
        self.kept = decay
        self.projector = mlp(size, projector, projection)
        self.predictor = mlp(projection, projector, projection)
        self.target = copy.deepcopy(self.projector).requires_grad_(False)

    def forward(
        self, views: Float[Tensor, "n 2 d"], *, targets: Float[Tensor, "n 2 d"], mask: Bool[Tensor, "n 2"] | None = None
    ) -> Float[Tensor, ""]:
        """Mean over both directions of 2 − 2 cos(predictor(projector(x)), target(momentum encoder's y)).

        `targets` come from the momentum encoder and get no gradient. Batch norm needs two samples: fewer give 0.
        """
        with torch.autocast(views.device.type, enabled=False):
            online, momentum = pairs(views, mask), pairs(targets.detach(), mask)
            if len(online) < 2:
                return online.sum() * 0.0
            predicted = [self.predictor(self.projector(online[:, view])) for view in (0, 1)]
            with torch.no_grad():
                expected = [self.target(momentum[:, view]) for view in (1, 0)]
            cosine = torch.stack([F.cosine_similarity(p, e, dim=-1) for p, e in zip(predicted, expected, strict=True)])
            return (2 - 2 * cosine).mean()

    def decay(self, progress: float) -> float:
        """Return the decay of the momentum copy: from the setting to 1, along a cosine over the training."""
        return 1 - (1 - self.kept) * (math.cos(math.pi * progress) + 1) / 2

    @torch.no_grad()
    def after_step(self, progress: float) -> None:
        for slow, fast in zip(self.target.parameters(), self.projector.parameters(), strict=True):
            slow.lerp_(fast, 1 - self.decay(progress))
