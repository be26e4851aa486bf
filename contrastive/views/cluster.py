"""Cluster views: k-means over a sample's K token vectors; the centres are the views.

The assignment is computed without gradient; a centre is the differentiable mean of its members. Detached centres would
leave the term without any gradient.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from contrastive.config.facts import ViewFacts
from contrastive.views.batches import Batch
from contrastive.views.topk_tokens import top_tokens
from contrastive.views.types import Encode, VectorGroup, View

CLUSTER_FACTS = ViewFacts(attention=True)

ITERATIONS = 10


def cluster(encode: Encode, batch: Batch, *, k: int, clusters: int) -> View:
    encoded = encode(batch)
    tokens = top_tokens(encoded, -1, k)
    group = centres(F.normalize(tokens.vectors.float(), dim=-1), tokens.mask, clusters)
    return View([group], torch.stack([encoded.dropout(encoded.pooled())], dim=1))


def centres(points_NKD: Float[Tensor, "n k d"], mask_NK: Bool[Tensor, "n k"], clusters: int) -> VectorGroup:
    """Compute the cluster centres of all samples at once; a centre without members is masked."""
    with torch.no_grad():
        one_hot_NKC = assign(points_NKD.detach(), mask_NK, clusters)
    size_NC = one_hot_NKC.sum(1)
    mean_NCD = one_hot_NKC.transpose(1, 2) @ points_NKD / size_NC.clamp(min=1)[..., None]
    return VectorGroup(mean_NCD, size_NC > 0)


def assign(points_NKD: Float[Tensor, "n k d"], mask_NK: Bool[Tensor, "n k"], clusters: int) -> Float[Tensor, "n k c"]:
    """Return each point's cluster (one-hot) by Lloyd's iterations from a farthest-first start, without randomness."""
    clusters = min(clusters, points_NKD.shape[1])
    centre_NCD = farthest_first(points_NKD, mask_NK, clusters)
    for _ in range(ITERATIONS):
        nearest_NK = torch.cdist(points_NKD, centre_NCD).argmin(-1)
        one_hot_NKC = F.one_hot(nearest_NK, clusters).to(points_NKD) * mask_NK[..., None]
        size_NC1 = one_hot_NKC.sum(1)[..., None]
        mean_NCD = one_hot_NKC.transpose(1, 2) @ points_NKD / size_NC1.clamp(min=1)
        centre_NCD = torch.where(size_NC1 > 0, mean_NCD, centre_NCD)
    return one_hot_NKC


def farthest_first(
    points_NKD: Float[Tensor, "n k d"], mask_NK: Bool[Tensor, "n k"], clusters: int
) -> Float[Tensor, "n c d"]:
    """Choose the most attended token, then repeatedly the token farthest from those chosen."""
    chosen = [points_NKD[:, 0]]
    distance_NK = torch.full_like(points_NKD[..., 0], torch.inf)
    for _ in range(clusters - 1):
        distance_NK = distance_NK.minimum((points_NKD - chosen[-1][:, None]).pow(2).sum(-1))
        farthest_N: Int[Tensor, " n"] = distance_NK.masked_fill(~mask_NK, -1).argmax(1)
        chosen.append(points_NKD[torch.arange(len(points_NKD), device=points_NKD.device), farthest_N])
    return torch.stack(chosen, dim=1)
