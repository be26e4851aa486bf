"""NT-Xent: Chen et al., "A Simple Framework for Contrastive Learning of Visual Representations", 2020, equation 1."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from contrastive.losses.similarity import info_nce, least


def ntxent(
    views: Float[Tensor, "n v d"],
    *,
    mask: Bool[Tensor, "n v"] | None = None,
    temperature: float = 0.1,
    chunk: int | None = None,
) -> Float[Tensor, ""]:
    """Mean over all rows i of −log( e^{s(i,i⁺)/τ} / Σ_{a≠i} e^{s(i,a)/τ} ), i⁺ the other view of the sample.

    With two views these are the paper's 2N rows with 2N − 1 candidates each. With more, the mean over the other views
    of a sample; one whose other views are masked leaves the mean. SimCSE's loss is another: one-way with N candidates.
    """
    return info_nce(views, mask, temperature, chunk, lambda anchor, row, _: anchor == row)


def ntxent_floor(labels: Int[Tensor, " n"], mask: Bool[Tensor, "n v"]) -> Float[Tensor, ""]:
    """E[log(number of other views)]: 0 with two views a sample, and growing with them."""
    return least(torch.arange(len(mask), device=mask.device).repeat_interleave(mask.shape[1])[mask.reshape(-1)])
