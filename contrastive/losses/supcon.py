"""Supervised contrastive losses: positives are the other views of a text and the texts of its class."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from contrastive.config.facts import LossFacts
from contrastive.losses.similarity import info_nce, kept_rows, logsumexp, mean_over_anchors

SUPCON_FACTS = LossFacts(positives="class")


def supcon(
    views: Float[Tensor, "n v d"],
    *,
    labels: Int[Tensor, " n"],
    mask: Bool[Tensor, "n v"] | None = None,
    temperature: float = 0.1,
    chunk: int | None = None,
) -> Float[Tensor, ""]:
    """Supervised contrastive loss (SupCon), with the mean over positives outside the logarithm (L_out). Khosla et al.,
    "Supervised Contrastive Learning", 2020, equation 2.

    Mean over anchors i of −1/|P(i)| Σ_p log( e^{s(i,p)/τ} / Σ_{a≠i} e^{s(i,a)/τ} ), s the cosine. Every unmasked vector
    is an anchor; its positives are the other unmasked vectors of its class, including other views of the same text.
    Anchors without a positive are left out of the mean; a batch without positives gives exactly 0, with a zero
    gradient.
    """
    return info_nce(views, mask, temperature, chunk, lambda anchor, row: labels[anchor] == labels[row])


SUPCON_IN_FACTS = LossFacts(positives="class")


def supcon_in(
    views: Float[Tensor, "n v d"],
    *,
    labels: Int[Tensor, " n"],
    mask: Bool[Tensor, "n v"] | None = None,
    temperature: float = 0.1,
    chunk: int | None = None,
) -> Float[Tensor, ""]:
    """Supervised contrastive loss (SupCon), with the mean over positives inside the logarithm (L_in). Khosla et al.,
    "Supervised Contrastive Learning", 2020, equation 3. L_in ≤ L_out, by Jensen's inequality.

    Mean over anchors i of −log( 1/|P(i)| Σ_p e^{s(i,p)/τ} / Σ_{a≠i} e^{s(i,a)/τ} ), s the cosine. Anchors and positives
    as in `supcon`; anchors without a positive are left out of the mean.
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


def dscl(
    views: Float[Tensor, "n v d"],
    *,
    labels: Int[Tensor, " n"],
    mask: Bool[Tensor, "n v"] | None = None,
    temperature: float = 0.07,
    beta: float = 8.0,
    chunk: int | None = None,
) -> Float[Tensor, ""]:
    """Decoupled supervised contrastive loss (DSCL): separate weights for a text's own views and its class. Xuan and
    Zhang, "Decoupled Contrastive Learning for Long-Tailed Recognition", 2024. Different from `dcl` by Yeh.

    Mean over anchors of Σ_p w(i,p) · −log( e^{s(i,p)/τ} / Σ_{a≠i} e^{s(i,a)/τ} ), s the cosine. An anchor's other views
    share the weight α = 1/(1 + β), the |P| rows of other texts of its class share 1 − α. Weights are normalised per
    anchor: with only one kind of positive, that kind gets all. The partition is not weighted. Two views and β = |P|
    give SupCon.
    """

    def weigh(anchor: Int[Tensor, "c 1"], row: Int[Tensor, " m"]) -> Float[Tensor, "c m"]:
        views_of_text = anchor == row  # one of them is the anchor itself
        class_rows = (labels[anchor] == labels[row]) & (anchor != row)
        counts = (views_of_text.sum(1, keepdim=True) - 1).clamp(min=1), class_rows.sum(1, keepdim=True).clamp(min=1)
        return views_of_text / counts[0].double() / (1 + beta) + class_rows / counts[1].double() * beta / (1 + beta)

    return info_nce(views, mask, temperature, chunk, weigh)
