"""SwAV loss: Caron et al., "Unsupervised Learning of Visual Features by Contrasting Cluster Assignments", 2020."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from contrastive.config.facts import LossFacts, Unsplittable
from contrastive.losses.heads import mlp
from contrastive.losses.similarity import pairs

SWAV_FACTS = LossFacts(
    unsplittable=Unsplittable(
        ("zero1", "zero2", "zero3"),
        "its prototypes are frozen at first, and ZeRO applies weight decay to frozen weights",
    ),
)

SHARPNESS = 0.05  # ε in the Sinkhorn algorithm
ITERATIONS = 3
FROZEN_STEPS = 5  # optimizer steps with frozen prototypes; at most a tenth of the training


class Swav(nn.Module):
    """Predict the codes of the first two views (balanced soft assignments to prototypes) from each other view."""

    steps: Tensor

    def __init__(self, size: int, *, projector: int = 1024, projection: int = 128, prototypes: int = 64):
        super().__init__()
        self.projector = mlp(size, projector, projection)
        self.prototypes = nn.Linear(projection, prototypes, bias=False)
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(
        self, views: Float[Tensor, "n v d"], *, mask: Bool[Tensor, "n v"] | None = None, temperature: float = 0.1
    ) -> Float[Tensor, ""]:
        """−½ Σ_{i = 1, 2} mean_{j ≠ i} qᵢ · log softmax(sⱼ/τ), s cosines to the prototypes, q the codes.

        Texts without one of their views are left out.
        """
        with torch.autocast(views.device.type, enabled=False):
            whole = pairs(views, mask)
            if len(whole) < 2 or whole.shape[1] < 2:  # batch norm and balanced codes need two samples
                return whole.sum() * 0.0
            weight = F.normalize(self.prototypes.weight, dim=-1)
            weight = weight.detach() if self.training and int(self.steps) < FROZEN_STEPS else weight
            projected = torch.stack([self.projector(view) for view in whole.unbind(1)], 1)
            return swapped_prediction(F.normalize(projected, dim=-1) @ weight.T, temperature)

    @torch.no_grad()
    def after_step(self, progress: float) -> None:
        self.steps += 1 if progress < 0.1 else FROZEN_STEPS


def swapped_prediction(scores: Float[Tensor, "n v k"], temperature: float) -> Float[Tensor, ""]:
    logs = F.log_softmax(scores / temperature, dim=-1)
    others = [logs.sum(1) - logs[:, view] for view in (0, 1)]
    terms = codes(scores[:, 0]) * others[0] + codes(scores[:, 1]) * others[1]
    return -terms.sum(1).mean() / 2 / (scores.shape[1] - 1)


@torch.no_grad()
def codes(scores: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
    """Compute codes by Sinkhorn-Knopp iterations in log space: rows sum to 1, columns are balanced."""
    log = scores / SHARPNESS
    for _ in range(ITERATIONS):
        log = log - log.logsumexp(0, keepdim=True)
        log = log - log.logsumexp(1, keepdim=True)
    return log.exp()
