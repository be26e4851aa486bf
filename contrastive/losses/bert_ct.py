"""Contrastive Tension (BERT-CT) loss: Carlsson et al., "Semantic Re-tuning with Contrastive Tension", 2021."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from contrastive.config.facts import LossFacts
from contrastive.losses.similarity import pairs

BERT_CT_FACTS = LossFacts(vectors=2, usual_view="copies")

NEGATIVES = 7  # random other sentences contrasted with each sentence


def bert_ct(views: Float[Tensor, "n 2 d"], *, mask: Bool[Tensor, "n 2"] | None = None) -> Float[Tensor, ""]:
    """Mean over sentences of softplus(−x·y) + K · mean over others j of softplus(x·yⱼ), K = 7; not normalised.

    Binary cross-entropy on dot products: positive for a sentence's vectors from the two copies of the encoder, negative
    for K random other sentences. Nothing is drawn from the batch: this is the expectation over draws.
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
