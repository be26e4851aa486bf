"""Supervised contrastive loss, the form with the mean over positives outside the logarithm (L_out).

Khosla et al., "Supervised Contrastive Learning", 2020, equation 2.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor


def supcon(
    views: Float[Tensor, "n v d"],
    *,
    labels: Int[Tensor, " n"],
    mask: Bool[Tensor, "n v"] | None = None,
    temperature: float,
) -> Float[Tensor, ""]:
    """Mean over anchors i of −1/|P(i)| Σ_p log( e^{s(i,p)/τ} / Σ_{a≠i} e^{s(i,a)/τ} ), s the cosine.

    Every vector that the mask keeps is an anchor; its positives are the other kept vectors of its class, its own
    views among them. An anchor without a positive contributes nothing and leaves the mean; without any positive in
    the batch the loss is exactly 0, with a zero gradient. Computed in fp32 at least, whatever the autocast dtype.
    """
    n, v, _ = views.shape
    vectors = views if views.dtype == torch.float64 else views.float()
    kept = torch.ones(n * v, dtype=torch.bool, device=views.device) if mask is None else mask.reshape(-1)
    with torch.autocast(views.device.type, enabled=False):
        rows_MD = F.normalize(vectors.reshape(n * v, -1)[kept], dim=-1)
        classes_M = labels.repeat_interleave(v)[kept]
        similarity_MM = rows_MD @ rows_MD.T / temperature
        itself_MM = torch.eye(len(rows_MD), dtype=torch.bool, device=views.device)
        positive_MM = (classes_M[:, None] == classes_M) & ~itself_MM
        partition_M = similarity_MM.masked_fill(itself_MM, -torch.inf).logsumexp(1)
        count_M = positive_MM.sum(1)
        has_M = count_M > 0
        if not bool(has_M.any()):
            return rows_MD.sum() * 0.0
        mean_similarity_M = (similarity_MM * positive_MM).sum(1) / count_M.clamp(min=1)
        return (partition_M - mean_similarity_M)[has_M].mean()


def supcon_floor(labels: Int[Tensor, " n"], mask: Bool[Tensor, "n v"]) -> Float[Tensor, ""]:
    """E[log |P(i)|], the value with each class in one point and the others infinitely far; no loss is below it.

    It grows with the vectors a sample, so that only `loss − floor` can be compared between different K.
    """
    classes_M = labels.repeat_interleave(mask.shape[1])[mask.reshape(-1)]
    count_M = (classes_M[:, None] == classes_M).sum(1) - 1
    count_M = count_M[count_M > 0]
    return count_M.float().log().mean() if len(count_M) else torch.zeros((), device=labels.device)
