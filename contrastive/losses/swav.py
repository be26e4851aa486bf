"""SwAV loss: Caron et al., "Unsupervised Learning of Visual Features by Contrasting Cluster Assignments", 2020."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from contrastive.config.facts import LossFacts, Unsplittable
from contrastive.losses.heads import mlp
from contrastive.losses.similarity import pairs

FACTS = LossFacts(
    vectors=2,
    unsplittable=Unsplittable(
        ("zero1", "zero2", "zero3"),
        "its prototypes are frozen at first, and ZeRO applies weight decay to frozen weights",
    ),
)

SHARPNESS = 0.05  # ε in the Sinkhorn algorithm
ITERATIONS = 3
FROZEN_STEPS = 5  # optimizer steps with frozen prototypes; at most a tenth of the training


class Swav(nn.Module):
    """Predict the code of each view (a balanced soft assignment to prototypes) from the other view."""

    steps: Tensor

    def __init__(self, size: int, *, projector: int = 1024, projection: int = 128, prototypes: int = 64):
        super().__init__()
        self.projector = mlp(size, projector, projection)
        self.prototypes = nn.Linear(projection, prototypes, bias=False)
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(
        self, views: Float[Tensor, "n 2 d"], *, mask: Bool[Tensor, "n 2"] | None = None, temperature: float = 0.1
    ) -> Float[Tensor, ""]:
        """−½ mean [q₁ · log softmax(s₂/τ) + q₂ · log softmax(s₁/τ)], s cosines to the prototypes, q the codes."""
        with torch.autocast(views.device.type, enabled=False):
            both = pairs(views, mask)
            if len(both) < 2:  # batch norm and balanced codes need two samples
                return both.sum() * 0.0
            weight = F.normalize(self.prototypes.weight, dim=-1)
            weight = weight.detach() if self.training and int(self.steps) < FROZEN_STEPS else weight
            scores = [F.normalize(self.projector(both[:, view]), dim=-1) @ weight.T for view in (0, 1)]
            return swapped_prediction(scores[0], scores[1], temperature)

    @torch.no_grad()
    def after_step(self, progress: float) -> None:
        self.steps += 1 if progress < 0.1 else FROZEN_STEPS


def swapped_prediction(
    first: Float[Tensor, "n k"], second: Float[Tensor, "n k"], temperature: float
) -> Float[Tensor, ""]:
    logs = [F.log_softmax(scores / temperature, dim=1) for scores in (first, second)]
    terms = codes(first) * logs[1] + codes(second) * logs[0]
    return -terms.sum(1).mean() / 2


@torch.no_grad()
def codes(scores: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
    """Compute codes by Sinkhorn-Knopp iterations in log space: rows sum to 1, columns are balanced."""
    log = scores / SHARPNESS
    for _ in range(ITERATIONS):
        log = log - log.logsumexp(0, keepdim=True)
        log = log - log.logsumexp(1, keepdim=True)
    return log.exp()
