"""SwAV: Caron et al., "Unsupervised Learning of Visual Features by Contrasting Cluster Assignments", 2020."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from contrastive.config.facts import LossFacts, Unsplittable
from contrastive.losses.heads import mlp
from contrastive.losses.similarity import exact, pairs

FACTS = LossFacts(
    vectors=2,
    unsplittable=Unsplittable(
        ("zero1", "zero2", "zero3"), "its prototypes rest at first, and ZeRO decays the weights of what rests"
    ),
)

SHARPNESS = 0.05  # ε of the codes
ITERATIONS = 3
RESTING = 5  # optimizer steps in which the prototypes rest, or fewer where these were more than a tenth of all


class Swav(nn.Module):
    """Each view predicts the code of the other one: its soft assignment to prototypes, equally shared in the batch."""

    steps: Tensor

    def __init__(self, size: int, *, projector: int = 1024, projection: int = 128, prototypes: int = 64):
        super().__init__()
        self.projector = mlp(size, projector, projection)
        self.prototypes = nn.Linear(projection, prototypes, bias=False)
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(
        self, views: Float[Tensor, "n 2 d"], *, mask: Bool[Tensor, "n 2"] | None = None, temperature: float = 0.1
    ) -> Float[Tensor, ""]:
        """−½ mean [q₁ · log softmax(s₂/τ) + q₂ · log softmax(s₁/τ)], s the cosines with the prototypes, q the codes."""
        with torch.autocast(views.device.type, enabled=False):
            both = pairs(exact(views), mask)
            if len(both) < 2:  # batch norm, and a code that is shared equally, need two samples
                return both.sum() * 0.0
            weight = F.normalize(self.prototypes.weight, dim=-1)
            weight = weight.detach() if self.training and int(self.steps) < RESTING else weight
            scores = [F.normalize(self.projector(both[:, view]), dim=-1) @ weight.T for view in (0, 1)]
            return swapped_prediction(scores[0], scores[1], temperature)

    @torch.no_grad()
    def after_step(self, progress: float) -> None:
        self.steps += 1 if progress < 0.1 else RESTING


def swapped_prediction(
    first: Float[Tensor, "n k"], second: Float[Tensor, "n k"], temperature: float
) -> Float[Tensor, ""]:
    logs = [F.log_softmax(scores / temperature, dim=1) for scores in (first, second)]
    terms = codes(first) * logs[1] + codes(second) * logs[0]
    return -terms.sum(1).mean() / 2


@torch.no_grad()
def codes(scores: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
    """Sinkhorn and Knopp's iterations, in logarithms: rows add to 1, columns are as equal as they can be."""
    log = scores / SHARPNESS
    for _ in range(ITERATIONS):
        log = log - log.logsumexp(0, keepdim=True)
        log = log - log.logsumexp(1, keepdim=True)
    return log.exp()
