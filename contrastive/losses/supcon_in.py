"""Supervised contrastive loss (SupCon), with the mean over positives inside the logarithm (L_in).

Khosla et al., "Supervised Contrastive Learning", 2020, equation 3. L_in ≤ L_out, by Jensen's inequality.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from contrastive.config.facts import LossFacts
from contrastive.losses.similarity import kept_rows, logsumexp, mean_over_anchors

SUPCON_IN_FACTS = LossFacts(positives="class")


def supcon_in(
    views: Float[Tensor, "n v d"],
    *,
    labels: Int[Tensor, " n"],
    mask: Bool[Tensor, "n v"] | None = None,
    temperature: float = 0.1,
    chunk: int | None = None,
) -> Float[Tensor, ""]:
    """Mean over anchors i of −log( 1/|P(i)| Σ_p e^{s(i,p)/τ} / Σ_{a≠i} e^{s(i,a)/τ} ), s the cosine.

    Anchors and positives as in `supcon`; anchors without a positive are left out of the mean.
    """
    with torch.autocast(views.device.type, enabled=False):
        vectors_MD, sample_M = kept_rows(views, mask)
        classes_M = labels[sample_M]

        def anchors(index_C: Int[Tensor, " c"]) -> tuple[Float[Tensor, " c"], Bool[Tensor, " c"]]:
            similarity_CM = vectors_MD[index_C] @ vectors_MD.T / temperature
            other_CM = index_C[:, None] != torch.arange(len(vectors_MD), device=views.device)
            positive_CM = (classes_M[index_C][:, None] == classes_M) & other_CM
            count_C = positive_CM.sum(1)
            value_C = logsumexp(similarity_CM, other_CM) - logsumexp(similarity_CM, positive_CM)
            return value_C + count_C.clamp(min=1).to(value_C).log(), count_C > 0

        return mean_over_anchors(anchors, vectors_MD, chunk)
