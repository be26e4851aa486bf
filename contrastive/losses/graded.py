"""Losses of graded pairs: the label of a text is a number, which says how much it and its positive agree."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from contrastive.config.facts import LossFacts
from contrastive.losses.similarity import pairs

COSENT_FACTS = LossFacts(vectors=2, usual_view="pair")


def cosent(
    views: Float[Tensor, "n 2 d"],
    *,
    grades: Float[Tensor, " n"],
    mask: Bool[Tensor, "n 2"] | None = None,
    temperature: float = 0.05,
) -> Float[Tensor, ""]:
    """CoSENT loss: Huang et al., "CoSENT: Consistent Sentence Embedding via Similarity Ranking", 2024.

    log(1 + Σ e^{(s_j − s_i)/τ}) over all i and j of which i has the higher grade; s is the cosine of the two texts of a
    pair. Only the order of the grades matters.
    """
    with torch.autocast(views.device.type, enabled=False):
        first, second = F.normalize(pairs(views, mask), dim=-1).unbind(1)
        return in_order((first * second).sum(-1), grades, mask, temperature)


ANGLE_FACTS = LossFacts(vectors=2, usual_view="pair")


def angle(
    views: Float[Tensor, "n 2 d"],
    *,
    grades: Float[Tensor, " n"],
    mask: Bool[Tensor, "n 2"] | None = None,
    temperature: float = 0.05,
) -> Float[Tensor, ""]:
    """AnglE loss: Li and Li, "AnglE-optimized Text Embeddings", 2023.

    `cosent` with another similarity: the vectors are read as complex numbers, the first half of the dimensions as real
    parts; s is the absolute sum of the real and imaginary parts of x/y, divided by the ratio of their lengths. The
    authors' objective is a sum of this term, of `cosent` and of an InfoNCE, such as `angle+cosent+simcse`.
    """
    with torch.autocast(views.device.type, enabled=False):
        kept_N2D = pairs(views, mask)
        even_N2D = F.normalize(F.pad(kept_N2D, (0, kept_N2D.shape[-1] % 2)), dim=-1)
        (real, imaginary), (other_real, other_imaginary) = (rows.chunk(2, -1) for rows in even_N2D.unbind(1))
        real_part = real * other_real + imaginary * other_imaginary
        imaginary_part = imaginary * other_real - real * other_imaginary
        return in_order((real_part + imaginary_part).sum(-1).abs(), grades, mask, temperature)


def in_order(
    similarity_N: Float[Tensor, " m"],
    grades: Float[Tensor, " n"],
    mask: Bool[Tensor, "n 2"] | None,
    temperature: float,
) -> Float[Tensor, ""]:
    """Return log(1 + Σ e^{(s_j − s_i)/τ}) over the pairs in which i has the higher grade."""
    grade_N = grades if mask is None else grades[mask.all(1)]
    higher_NN = grade_N[:, None] > grade_N
    too_close = ((similarity_N - similarity_N[:, None]) / temperature)[higher_NN]
    return torch.cat([similarity_N.sum()[None] * 0.0, too_close]).logsumexp(0)
