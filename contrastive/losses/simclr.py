"""SimCLR: NT-Xent on the outputs of a projector. Chen et al., "A Simple Framework for Contrastive Learning of Visual
Representations", 2020. The loss `ntxent` is the same without a projector."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from contrastive.config.facts import LossFacts
from contrastive.losses.heads import mlp
from contrastive.losses.ntxent import ntxent
from contrastive.losses.similarity import exact

SIMCLR_FACTS = LossFacts()


class Simclr(nn.Module):
    """Contrast the views of a sample with those of others, after two linear layers that are discarded afterwards."""

    def __init__(self, size: int, *, projector: int = 1024, projection: int = 128):
        super().__init__()
        self.projector = mlp(size, projector, projection, norm=False)

    def forward(
        self,
        views: Float[Tensor, "n v d"],
        *,
        mask: Bool[Tensor, "n v"] | None = None,
        temperature: float = 0.1,
        chunk: int | None = None,
    ) -> Float[Tensor, ""]:
        with torch.autocast(views.device.type, enabled=False):
            return ntxent(self.projector(exact(views)), mask=mask, temperature=temperature, chunk=chunk)
