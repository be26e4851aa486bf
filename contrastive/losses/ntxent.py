"""Losses that tell the other view of a text from other texts by a softmax over similarities (NT-Xent, InfoNCE)."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from contrastive.config.facts import LossFacts
from contrastive.losses.similarity import exact, info_nce, one_way

NTXENT_FACTS = LossFacts(positives="text")


def ntxent(
    views: Float[Tensor, "n v d"],
    *,
    mask: Bool[Tensor, "n v"] | None = None,
    temperature: float = 0.1,
    chunk: int | None = None,
) -> Float[Tensor, ""]:
    """NT-Xent loss, from SimCLR. Chen et al., "A Simple Framework for Contrastive Learning of Visual Representations",
    2020, equation 1.

    Mean over all rows i of −log( e^{s(i,i⁺)/τ} / Σ_{a≠i} e^{s(i,a)/τ} ), i⁺ the other view of the sample. With two
    views: 2N rows with 2N − 1 candidates each, as in the paper. With more, averaged over the other views of a sample;
    rows whose other views are all masked are left out. SimCSE differs: one-way, N candidates.
    """
    return info_nce(views, mask, temperature, chunk, lambda anchor, row: anchor == row)


DROPOUT_NTXENT_FACTS = LossFacts(vectors=2)


def dropout_ntxent(logits: Float[Tensor, "n 2 c"], *, temperature: float = 0.05) -> Float[Tensor, ""]:
    """NT-Xent on the classifier's logits of two dropout passes, as tried in one of the source documents. It contrasts
    the logits, not their softmax: NT-Xent applies a softmax of its own.

    `ntxent` on the logits: the two predictions of a text should agree more than those of two texts; 1/τ = 20.
    """
    return ntxent(logits, temperature=temperature)


CLEAR_FACTS = LossFacts(vectors=2, usual_view="word_delete")


def clear(
    views: Float[Tensor, "n 2 d"],
    *,
    mask: Bool[Tensor, "n 2"] | None = None,
    temperature: float = 0.1,
    chunk: int | None = None,
) -> Float[Tensor, ""]:
    """CLEAR loss: Wu et al., "CLEAR: Contrastive Learning for Sentence Representation", 2020.

    NT-Xent on two augmented sentences: words or spans deleted, spans reordered, or words replaced by synonyms. The full
    objective of the paper is `clear+mlm` with mlm_weight 1.
    """
    return ntxent(views, mask=mask, temperature=temperature, chunk=chunk)


DECLUTR_FACTS = LossFacts(vectors=4, usual_view="span")


def declutr(
    views: Float[Tensor, "n 4 d"],
    *,
    mask: Bool[Tensor, "n 4"] | None = None,
    temperature: float = 0.05,
    chunk: int | None = None,
) -> Float[Tensor, ""]:
    """DeCLUTR loss: Giorgi et al., "DeCLUTR: Deep Contrastive Learning for Unsupervised Textual Representations", 2021.

    NT-Xent between two anchor spans and the mean of their positive spans; views: anchor, mean, anchor, mean. The other
    anchor of the same document counts as a negative, as other documents do. The full objective of the paper is
    `declutr+mlm` with mlm_weight 1.
    """
    spans = views.unflatten(1, (-1, 2)).flatten(0, 1)
    kept = None if mask is None else mask.unflatten(1, (-1, 2)).flatten(0, 1)
    return ntxent(spans, mask=kept, temperature=temperature, chunk=chunk)


def dcl(
    views: Float[Tensor, "n v d"],
    *,
    mask: Bool[Tensor, "n v"] | None = None,
    temperature: float = 0.1,
    chunk: int | None = None,
) -> Float[Tensor, ""]:
    """Decoupled contrastive learning (DCL): InfoNCE without the sample itself in the denominator. Yeh et al.,
    "Decoupled Contrastive Learning", 2021, equation 6. Different from `dscl` by Xuan and Zhang.

    Mean over rows i of −s(i,i⁺)/τ + log Σ_a e^{s(i,a)/τ}, a the rows of other samples, i⁺ the sample's other view. With
    more than two views, averaged over i⁺. Rows without another view or without other samples are left out.
    """
    return info_nce(
        views, mask, temperature, chunk,
        weigh=lambda anchor, row: anchor == row,
        among=lambda anchor, row: anchor != row,
    )  # fmt: skip


DCLW_FACTS = LossFacts(vectors=2)


def dclw(
    views: Float[Tensor, "n 2 d"],
    *,
    mask: Bool[Tensor, "n 2"] | None = None,
    temperature: float = 0.1,
    sigma: float = 0.5,
    chunk: int | None = None,
) -> Float[Tensor, ""]:
    """Weighted decoupled contrastive learning (DCLW): DCL with a von-Mises-Fisher weight on the positive. Yeh et al.,
    "Decoupled Contrastive Learning", 2021, equation 6 and section 3.2.

    `dcl` with the positive s(i,i⁺)/τ multiplied by 2 − e^{s(i,i⁺)/σ} / mean e^{s/σ}, which has no gradient. The mean is
    over the samples of the batch: pairs that already agree more than others get a smaller weight.
    """
    return info_nce(
        views, mask, temperature, chunk,
        weigh=lambda anchor, row: anchor == row,
        among=lambda anchor, row: anchor != row,
        pull=positive_weights(views, mask, sigma),
    )  # fmt: skip


@torch.no_grad()
def positive_weights(
    views: Float[Tensor, "n 2 d"], mask: Bool[Tensor, "n 2"] | None, sigma: float
) -> Float[Tensor, " n"]:
    with torch.autocast(views.device.type, enabled=False):
        first_ND, second_ND = F.normalize(exact(views), dim=-1).unbind(1)
        agreement_N = (first_ND * second_ND).sum(-1) / sigma
        if mask is None:
            return 2 - len(views) * agreement_N.softmax(0)
        pair_N = mask.all(1)
        share_N = agreement_N.masked_fill(~pair_N, -torch.inf).softmax(0)
        return torch.where(pair_N, 2 - pair_N.sum() * share_N, torch.zeros_like(share_N))


SIMCSE_FACTS = LossFacts(vectors=2)


def simcse(
    views: Float[Tensor, "n 2 d"],
    *,
    mask: Bool[Tensor, "n 2"] | None = None,
    temperature: float = 0.05,
    chunk: int | None = None,
) -> Float[Tensor, ""]:
    """Unsupervised SimCSE: Gao et al., "SimCSE: Simple Contrastive Learning of Sentence Embeddings", 2021, equation 4.

    Mean over samples of −s(i,i⁺)/τ + log Σ_j e^{s(i,j⁺)/τ}: first views against second views, one way. Each anchor has
    N candidates, its positive included; `ntxent` has 2N − 1. Samples with a masked view are neither anchors nor
    candidates. A single sample gives 0.
    """
    return one_way(views, mask, temperature, chunk)


SIMCSE_SUP_FACTS = LossFacts(vectors=2, usual_view="pair")


def simcse_sup(
    views: Float[Tensor, "n 2 d"],
    *,
    negatives: Float[Tensor, "n d"],
    mask: Bool[Tensor, "n 2"] | None = None,
    temperature: float = 0.05,
    chunk: int | None = None,
) -> Float[Tensor, ""]:
    """Supervised SimCSE loss with hard negatives: Gao et al., "SimCSE: Simple Contrastive Learning of Sentence
    Embeddings", 2021, equation 5.

    Mean over samples of −s(i,i⁺)/τ + log Σ_j [e^{s(i,j⁺)/τ} + e^{s(i,j⁻)/τ}]; views: a text and its positive. Every
    anchor has the hard negatives of all samples as candidates. Samples with a masked view are neither anchors nor
    candidates.
    """
    return one_way(views, mask, temperature, chunk, negatives)
