"""Losses that compare texts pair by pair, without a softmax over other texts."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from contrastive.config.facts import LossFacts
from contrastive.losses.similarity import pairs

ALIGN_UNIFORM_FACTS = LossFacts(vectors=2)

SPREAD = 2.0  # t in the uniformity term


def align_uniform(views: Float[Tensor, "n 2 d"], *, mask: Bool[Tensor, "n 2"] | None = None) -> Float[Tensor, ""]:
    """Alignment and uniformity loss: Wang and Isola, "Understanding Contrastive Representation Learning through
    Alignment and Uniformity on the Hypersphere", 2020.

    E‖x − y‖² + ½ Σ_views log E_{i<j} e^{−2‖xᵢ − xⱼ‖²} on normalised vectors; both terms have weight 1. May be negative.
    Samples with a masked view are skipped; for a single pair the uniformity term is 0.
    """
    with torch.autocast(views.device.type, enabled=False):
        first_ND, second_ND = F.normalize(pairs(views, mask), dim=-1).unbind(1)
        if len(first_ND) == 0:
            return first_ND.sum() * 0.0
        alignment = (first_ND - second_ND).pow(2).sum(1).mean()
        return alignment + (log_mean_potential(first_ND) + log_mean_potential(second_ND)) / 2


def log_mean_potential(rows_ND: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
    """Log of the mean of e^{−2‖x − y‖²} over pairs, computed from cosines:  ‖x − y‖² = 2 − 2 x·y."""
    if len(rows_ND) < 2:
        return rows_ND.sum() * 0.0
    above = torch.ones(len(rows_ND), len(rows_ND), dtype=torch.bool, device=rows_ND.device).triu(1)
    squared_P = (2 - 2 * rows_ND @ rows_ND.T)[above]
    return (-SPREAD * squared_P).logsumexp(0) - math.log(len(squared_P))


BERT_CT_FACTS = LossFacts(vectors=2, usual_view="copies")

NEGATIVES = 7  # random other sentences contrasted with each sentence


def bert_ct(views: Float[Tensor, "n 2 d"], *, mask: Bool[Tensor, "n 2"] | None = None) -> Float[Tensor, ""]:
    """Contrastive Tension (BERT-CT) loss: Carlsson et al., "Semantic Re-tuning with Contrastive Tension", 2021.

    Mean over sentences of softplus(−x·y) + K · mean over others j of softplus(x·yⱼ), K = 7; not normalised. Binary
    cross-entropy on dot products: positive for a sentence's vectors from the two copies of the encoder, negative for K
    random other sentences. Nothing is drawn from the batch: this is the expectation over draws.
    """
    with torch.autocast(views.device.type, enabled=False):
        first_ND, second_ND = pairs(views, mask).unbind(1)
        if len(first_ND) == 0:
            return first_ND.sum() * 0.0
        dot_NN = first_ND @ second_ND.T
        same = torch.eye(len(dot_NN), dtype=torch.bool, device=dot_NN.device)
        agree = F.softplus(-dot_NN.diagonal()).mean()
        differ = F.softplus(dot_NN).masked_fill(same, 0.0).sum() / (len(dot_NN) * max(1, len(dot_NN) - 1))
        return agree + NEGATIVES * differ
