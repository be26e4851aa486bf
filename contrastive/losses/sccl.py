"""SCCL loss: Zhang et al., "Supporting Clustering with Contrastive Learning", 2021."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from contrastive.config.facts import LossFacts
from contrastive.errors import UserError
from contrastive.losses.heads import mlp
from contrastive.losses.ntxent import ntxent
from contrastive.losses.similarity import pairs

SCCL_FACTS = LossFacts(vectors=2, least_texts="clusters")

CLUSTERING = 10.0  # η, the weight of the clustering term


class Sccl(nn.Module):
    """NT-Xent on projections of two views, plus a soft clustering loss on the sentence vectors.

    The cluster centres train with the heads; `begin` initialises them by k-means.
    """

    def __init__(self, size: int, *, projection: int = 128, clusters: int = 5):
        super().__init__()
        self.projector = mlp(size, size, projection, norm=False)
        self.centres = nn.Parameter(torch.randn(clusters, size))

    @torch.no_grad()
    def begin(self, embeddings: Float[Tensor, "m d"]) -> None:
        """Initialise the centres by k-means on embeddings of the training texts from the untrained encoder."""
        from sklearn.cluster import KMeans

        if len(embeddings) < len(self.centres):
            raise UserError(
                f"sccl has {len(self.centres)} clusters, but there are only {len(embeddings)} training "
                "texts; lower objective.clusters"
            )
        fitted = KMeans(len(self.centres), n_init=10, random_state=0).fit(embeddings.cpu().double().numpy())
        self.centres.copy_(torch.from_numpy(fitted.cluster_centers_))

    def forward(
        self, views: Float[Tensor, "n 2 d"], *, mask: Bool[Tensor, "n 2"] | None = None, temperature: float = 0.5
    ) -> Float[Tensor, ""]:
        with torch.autocast(views.device.type, enabled=False):
            both = pairs(views, mask)
            if len(both) == 0:
                return both.sum() * 0.0
            projected = torch.stack([self.projector(both[:, 0]), self.projector(both[:, 1])], dim=1)
            return ntxent(projected, temperature=temperature) + CLUSTERING * clustering(both[:, 0], self.centres)


def clustering(vectors: Float[Tensor, "n d"], centres: Float[Tensor, "k d"]) -> Float[Tensor, ""]:
    """Mean KL(p‖q) over texts; q ∝ (1 + ‖e − μ‖²)⁻¹ (Student's t with 1 df), p ∝ q²/Σ_texts q, detached."""
    similarity_NK = 1 / (1 + torch.cdist(vectors, centres).pow(2))
    q_NK = similarity_NK / similarity_NK.sum(1, keepdim=True)
    with torch.no_grad():
        sharp_NK = q_NK.pow(2) / q_NK.sum(0)
        p_NK = sharp_NK / sharp_NK.sum(1, keepdim=True)
    return F.kl_div(q_NK.log(), p_NK, reduction="batchmean")
