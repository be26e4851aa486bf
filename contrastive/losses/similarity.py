"""InfoNCE and other losses on the cosine similarities of a batch, at once or in chunks of anchors to save memory.

With chunks, at most chunk × M similarities exist at a time; the backward pass recomputes them. Value and gradient are
the same as for the whole matrix. Everything is computed in at least fp32, even under autocast.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint

TINY = 1e-30  # smallest divisor, in place of a weight sum of 0


class KeptRows(NamedTuple):
    """The unmasked vectors, normalised, and the index of the sample each one belongs to."""

    vectors: Float[Tensor, "m d"]
    sample: Int[Tensor, " m"]


# Called with the sample numbers of some anchors and of all vectors. Returns unnormalised weights of positives, or the
# mask of vectors in the denominator. The anchor itself is neither, whatever is returned for it.
Weigh: TypeAlias = Callable[[Int[Tensor, "c 1"], Int[Tensor, " m"]], Bool[Tensor, "c m"] | Float[Tensor, "c m"]]
Anchors: TypeAlias = Callable[[Int[Tensor, " c"]], tuple[Float[Tensor, " c"], Bool[Tensor, " c"]]]


def exact(vectors: Tensor) -> Tensor:
    """Cast to fp32; float64 stays as it is."""
    return vectors if vectors.dtype == torch.float64 else vectors.float()


def kept_rows(views: Float[Tensor, "n v d"], mask: Bool[Tensor, "n v"] | None) -> KeptRows:
    n, v, _ = views.shape
    sample = torch.arange(n, device=views.device).repeat_interleave(v)
    flat = exact(views).reshape(n * v, -1)
    if mask is not None:
        kept = mask.reshape(-1)
        flat, sample = flat[kept], sample[kept]
    return KeptRows(F.normalize(flat, dim=-1), sample)


def info_nce(
    views: Float[Tensor, "n v d"],
    mask: Bool[Tensor, "n v"] | None,
    temperature: float,
    chunk: int | None,
    weigh: Weigh,
    among: Weigh | None = None,
    pull: Float[Tensor, " n"] | None = None,
) -> Float[Tensor, ""]:
    """Mean over anchors i of log Σ_{a among} e^{s(i,a)/τ} − pull(i) Σ_p w(i,p) s(i,p)/τ, each anchor's weights
    summing to 1.

    Every unmasked vector is an anchor; without `among`, all others are in its denominator. The mean leaves out anchors
    without a positive or with an empty partition. `pull` scales the positive term of each sample's anchors.
    """
    with torch.autocast(views.device.type, enabled=False):
        vectors_MD, sample_M = kept_rows(views, mask)
        pull_M = torch.ones_like(vectors_MD[:, 0]) if pull is None else pull[sample_M].to(vectors_MD)
        choose = partial(_weights_and_mask, sample_M, weigh, among, vectors_MD.dtype)
        value_M, is_counted_M = _InfoNCE.apply(
            vectors_MD, pull_M, temperature, chunk or max(1, len(vectors_MD)), choose
        )
        return value_M.masked_fill(~is_counted_M, 0.0).sum() / is_counted_M.sum().clamp(min=1).to(value_M)


def _weights_and_mask(
    sample_M: Int[Tensor, " m"], weigh: Weigh, among: Weigh | None, precision: torch.dtype, index_C: Int[Tensor, " c"]
) -> tuple[Tensor, Bool[Tensor, "c m"]]:
    """Return each anchor's unnormalised weights of its positives (`weigh`), and the mask of its denominator
    (`among`)."""
    other_CM = index_C[:, None] != torch.arange(len(sample_M), device=sample_M.device)
    anchor_C1 = sample_M[index_C][:, None]
    weight_CM = weigh(anchor_C1, sample_M) * other_CM
    if weight_CM.is_floating_point():  # a mask stays at one byte per entry
        weight_CM = weight_CM.to(precision)
    return weight_CM, other_CM if among is None else among(anchor_C1, sample_M).bool() & other_CM


class _InfoNCE(torch.autograd.Function):
    """Compute the loss of each anchor and whether it counts, with one chunk of similarities in memory at a time.

    The gradient with respect to a similarity is its share of the partition minus its weight as a positive. Backward
    recomputes the similarities, so nothing of the size of the matrix is saved.
    """

    @staticmethod
    def forward(
        context: Any, vectors_MD: Tensor, pull_M: Tensor, temperature: float, chunk: int, choose: Any
    ) -> tuple[Tensor, Tensor]:
        partition_M, value_M = torch.empty_like(pull_M), torch.empty_like(pull_M)
        is_counted_M = torch.empty_like(pull_M, dtype=torch.bool)
        for index_C in torch.arange(len(vectors_MD), device=vectors_MD.device).split(chunk):
            similarity_CM = (vectors_MD[index_C] @ vectors_MD.T).div_(temperature)
            weight_CM, among_CM = choose(index_C)
            sum_C = weight_CM.sum(1)
            positive_C = (similarity_CM * weight_CM).sum(1) / sum_C.clamp(min=TINY)
            nonempty_C = among_CM.any(1)
            similarity_CM.masked_fill_(~among_CM, -torch.inf)[~nonempty_C] = 0.0
            partition_M[index_C] = similarity_CM.logsumexp(1)
            value_M[index_C] = partition_M[index_C] - pull_M[index_C] * positive_C
            is_counted_M[index_C] = nonempty_C & (sum_C > 0)
        context.save_for_backward(vectors_MD, pull_M, partition_M)
        context.settings = temperature, chunk, choose
        context.mark_non_differentiable(is_counted_M)
        return value_M, is_counted_M

    @staticmethod
    def backward(context: Any, output_gradient_M: Tensor, _: Tensor) -> tuple[Tensor, None, None, None, None]:
        """Differentiate by each similarity, g/τ · (softmax over the denominator − pull · w/Σw), then by its vectors."""
        vectors_MD, pull_M, partition_M = context.saved_tensors
        temperature, chunk, choose = context.settings
        gradient_MD = torch.zeros_like(vectors_MD)
        for index_C in torch.arange(len(vectors_MD), device=vectors_MD.device).split(chunk):
            share_CM = (vectors_MD[index_C] @ vectors_MD.T).div_(temperature)
            weight_CM, among_CM = choose(index_C)
            share_CM.sub_(partition_M[index_C][:, None]).exp_().masked_fill_(~among_CM, 0.0)
            scale_C = pull_M[index_C] / weight_CM.sum(1).clamp(min=TINY)
            share_CM.sub_(weight_CM * scale_C[:, None]).mul_(output_gradient_M[index_C][:, None] / temperature)
            gradient_MD[index_C] += share_CM @ vectors_MD
            gradient_MD.addmm_(share_CM.T, vectors_MD[index_C])
        return gradient_MD, None, None, None, None


def mean_over_anchors(anchors: Anchors, vectors_MD: Float[Tensor, "m d"], chunk: int | None) -> Float[Tensor, ""]:
    """Average the values that `anchors(indices)` returns over the anchors that its mask keeps; exactly 0, with a zero
    gradient, if it keeps none."""
    total, count = vectors_MD.sum() * 0.0, torch.zeros((), device=vectors_MD.device)
    for index_C in torch.arange(len(vectors_MD), device=vectors_MD.device).split(chunk or max(1, len(vectors_MD))):
        part = anchors(index_C) if chunk is None else checkpoint(anchors, index_C, use_reentrant=False)
        value_C, counts_C = part
        total = total + value_C.masked_fill(~counts_C, 0.0).sum()
        count = count + counts_C.sum()
    return total / count.clamp(min=1).to(total)


def logsumexp(similarity: Float[Tensor, "c m"], keep: Bool[Tensor, "c m"]) -> Float[Tensor, " c"]:
    """Compute logsumexp over the kept entries of each row; a row without any gives a constant, not NaN."""
    empty_C1 = ~keep.any(1, keepdim=True)
    return similarity.masked_fill(~keep, -torch.inf).masked_fill(empty_C1, 0.0).logsumexp(1)


def one_way(
    views: Float[Tensor, "n 2 d"],
    mask: Bool[Tensor, "n 2"] | None,
    temperature: float,
    chunk: int | None,
    negatives: Float[Tensor, "n d"] | None = None,
) -> Float[Tensor, ""]:
    """Mean over samples i of log Σ_c e^{s(i,c)/τ} − s(i,i⁺)/τ; views: the anchor and its positive.

    The candidates c are the positives and the hard negatives (if any) of all samples. Samples with a masked view are
    neither anchors nor candidates.
    """
    with torch.autocast(views.device.type, enabled=False):
        anchor_ND, positive_ND = (F.normalize(view, dim=-1) for view in pairs(views, mask).unbind(1))
        hard = [] if negatives is None else [negatives if mask is None else negatives[mask.all(1)]]
        candidate_MD = torch.cat([positive_ND, *(F.normalize(exact(each), dim=-1) for each in hard)])

        def anchors(index_C: Int[Tensor, " c"]) -> tuple[Float[Tensor, " c"], Bool[Tensor, " c"]]:
            similarity_CM = anchor_ND[index_C] @ candidate_MD.T / temperature
            agreement_C = (anchor_ND[index_C] * positive_ND[index_C]).sum(-1) / temperature
            return similarity_CM.logsumexp(1) - agreement_C, torch.ones_like(agreement_C, dtype=torch.bool)

        return mean_over_anchors(anchors, anchor_ND, chunk)


def pairs(views: Float[Tensor, "n v d"], mask: Bool[Tensor, "n v"] | None) -> Float[Tensor, "m v d"]:
    """Return the samples with all views unmasked, in at least fp32."""
    return exact(views if mask is None else views[mask.all(1)])


def least(
    positives: Literal["class", "text"], labels: Int[Tensor, " n"], mask: Bool[Tensor, "n v"]
) -> Float[Tensor, ""]:
    """Return the lowest possible InfoNCE: positives of each row in one point, all other rows infinitely far.

    It is E[log |P|] over the unmasked rows with a positive. It grows with the number of vectors per text, so compare
    losses across such numbers by `loss − floor`.
    """
    group_N = labels if positives == "class" else torch.arange(len(mask), device=mask.device)
    label_M = group_N.repeat_interleave(mask.shape[1])[mask.reshape(-1)]
    _, group_M, size_G = label_M.unique(return_inverse=True, return_counts=True)
    count_M = (size_G - 1)[group_M]
    count_M = count_M[count_M > 0]
    return count_M.float().log().mean() if len(count_M) else torch.zeros((), device=mask.device)
