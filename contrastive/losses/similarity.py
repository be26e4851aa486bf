"""Cosine similarities among the vectors of a batch, whole or a chunk of anchors at a time.

With a chunk no more than chunk × M similarities exist at once: they are computed again in the backward pass. Value and
gradient are those of the whole matrix. Everything here is in fp32 at least, whatever the autocast dtype.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint


class Rows(NamedTuple):
    """The vectors that a mask keeps, normalised, and the sample of each."""

    vectors: Float[Tensor, "m d"]
    sample: Int[Tensor, " m"]


# (samples of the anchors, samples of all rows, which of these are other rows) → the weight of each as a positive, or
# which belong to the partition
Weigh: TypeAlias = Callable[
    [Int[Tensor, "c 1"], Int[Tensor, " m"], Bool[Tensor, "c m"]], Bool[Tensor, "c m"] | Float[Tensor, "c m"]
]
Anchors: TypeAlias = Callable[[Int[Tensor, " c"]], tuple[Float[Tensor, " c"], Bool[Tensor, " c"]]]


def exact(vectors: Tensor) -> Tensor:
    """fp32, or float64 where that is what arrives."""
    return vectors if vectors.dtype == torch.float64 else vectors.float()


def rows(views: Float[Tensor, "n v d"], mask: Bool[Tensor, "n v"] | None) -> Rows:
    n, v, _ = views.shape
    sample = torch.arange(n, device=views.device).repeat_interleave(v)
    flat = exact(views).reshape(n * v, -1)
    if mask is not None:
        kept = mask.reshape(-1)
        flat, sample = flat[kept], sample[kept]
    return Rows(F.normalize(flat, dim=-1), sample)


def info_nce(
    views: Float[Tensor, "n v d"],
    mask: Bool[Tensor, "n v"] | None,
    temperature: float,
    chunk: int | None,
    weigh: Weigh,
    among: Weigh = lambda _, __, other: other,
    pull: Float[Tensor, " n"] | None = None,
) -> Float[Tensor, ""]:
    """Mean over anchors i of log Σ_{a among} e^{s(i,a)/τ} − Σ_p w(i,p) s(i,p)/τ, the weights of an anchor adding to 1.

    Every kept vector is an anchor. One without a positive, or with nothing in its partition, contributes nothing and
    leaves the mean. `pull` multiplies the positive part of a sample's anchors.
    """
    with torch.autocast(views.device.type, enabled=False):
        vectors_MD, sample_M = rows(views, mask)

        def anchors(index_C: Int[Tensor, " c"]) -> tuple[Float[Tensor, " c"], Bool[Tensor, " c"]]:
            similarity_CM = vectors_MD[index_C] @ vectors_MD.T / temperature
            other_CM = index_C[:, None] != torch.arange(len(vectors_MD), device=views.device)
            of_anchor_C1 = sample_M[index_C][:, None]
            weight_CM = weigh(of_anchor_C1, sample_M, other_CM).to(similarity_CM) * other_CM
            among_CM = among(of_anchor_C1, sample_M, other_CM).bool()
            sum_C = weight_CM.sum(1)
            positive_C = torch.einsum("cm,cm->c", similarity_CM, weight_CM) / sum_C.clamp(min=1e-30)
            if pull is not None:
                positive_C = positive_C * pull[sample_M[index_C]]
            return logsumexp(similarity_CM, among_CM) - positive_C, (sum_C > 0) & among_CM.any(1)

        return mean_over_anchors(anchors, vectors_MD, chunk)


def mean_over_anchors(anchors: Anchors, vectors_MD: Float[Tensor, "m d"], chunk: int | None) -> Float[Tensor, ""]:
    """The mean of what `anchors` gives for those that count; exactly 0, with a zero gradient, when none does."""
    total, count = vectors_MD.sum() * 0.0, torch.zeros((), device=vectors_MD.device)
    for index_C in torch.arange(len(vectors_MD), device=vectors_MD.device).split(chunk or max(1, len(vectors_MD))):
        part = anchors(index_C) if chunk is None else checkpoint(anchors, index_C, use_reentrant=False)
        value_C, counts_C = part
        total = total + value_C.masked_fill(~counts_C, 0.0).sum()
        count = count + counts_C.sum()
    return total / count.clamp(min=1).to(total)


def logsumexp(similarity: Float[Tensor, "c m"], keep: Bool[Tensor, "c m"]) -> Float[Tensor, " c"]:
    """Over what is kept; a row of which nothing is kept gives a constant, not NaN."""
    nothing_C1 = ~keep.any(1, keepdim=True)
    return similarity.masked_fill(~keep, -torch.inf).masked_fill(nothing_C1, 0.0).logsumexp(1)


def one_way(
    views: Float[Tensor, "n v d"], mask: Bool[Tensor, "n v"] | None, temperature: float, chunk: int | None
) -> Float[Tensor, ""]:
    """Mean over samples i of log Σ_c e^{s(i,c)/τ} − s(i,i⁺)/τ: views are the anchor, its positive, and hard negatives.

    The candidates c are the positives and hard negatives of all samples. What the mask leaves out is no candidate, and
    a sample without its anchor or positive is none.
    """
    with torch.autocast(views.device.type, enabled=False):
        kept_NV = views.new_ones(views.shape[:2], dtype=torch.bool) if mask is None else mask
        clean = exact(views).masked_fill(~kept_NV[..., None], 0.0)  # what is masked may be anything
        vectors_NVD = F.normalize(clean, dim=-1)
        pair_N = kept_NV[:, 0] & kept_NV[:, 1]
        anchor_ND, positive_ND = vectors_NVD[:, 0], vectors_NVD[:, 1]
        candidate_MD = vectors_NVD[:, 1:].transpose(0, 1).flatten(0, 1)
        kept_M = torch.cat([pair_N, kept_NV[:, 2:].T.flatten()])

        def anchors(index_C: Int[Tensor, " c"]) -> tuple[Float[Tensor, " c"], Bool[Tensor, " c"]]:
            similarity_CM = anchor_ND[index_C] @ candidate_MD.T / temperature
            own_C = (anchor_ND[index_C] * positive_ND[index_C]).sum(-1) / temperature
            return logsumexp(similarity_CM, kept_M.expand_as(similarity_CM)) - own_C, pair_N[index_C]

        return mean_over_anchors(anchors, anchor_ND, chunk)


def pairs(views: Float[Tensor, "n 2 d"], mask: Bool[Tensor, "n 2"] | None) -> Float[Tensor, "m 2 d"]:
    """The samples of which both views exist."""
    return views if mask is None else views[mask.all(1)]


def least(positives_of: Int[Tensor, " m"]) -> Float[Tensor, ""]:
    """E[log |P|] over the rows that have a positive, rows of one number being each other's: InfoNCE under collapse."""
    _, group_M, size_G = positives_of.unique(return_inverse=True, return_counts=True)
    count_M = (size_G - 1)[group_M]
    count_M = count_M[count_M > 0]
    return count_M.float().log().mean() if len(count_M) else torch.zeros((), device=positives_of.device)
