"""Losses that train the scale of their similarities, instead of a temperature that is set.

The scale is a weight: it is saved in checkpoints, has no weight decay, and trains at `head_lr`.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from contrastive.config.facts import LossFacts
from contrastive.losses.similarity import pairs

SIGLIP_FACTS = LossFacts(vectors=2)


class Siglip(nn.Module):
    """SigLIP loss: Zhai et al., "Sigmoid Loss for Language Image Pre-Training", 2023.

    −(1/n) Σ_ij log σ(z_ij (e^t s_ij + b)), z_ij = 1 for the two vectors of one text and −1 otherwise; e^t starts at 10
    and b at −10. Every pair counts by itself, without a softmax over the batch.
    """

    def __init__(self, size: int):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([math.log(10)]))
        self.bias = nn.Parameter(torch.tensor([-10.0]))

    def forward(self, views: Float[Tensor, "n 2 d"], *, mask: Bool[Tensor, "n 2"] | None = None) -> Float[Tensor, ""]:
        with torch.autocast(views.device.type, enabled=False):
            logits_NN = cosines(views, mask) * self.scale.exp() + self.bias
            sign_NN = 2 * torch.eye(len(logits_NN), dtype=logits_NN.dtype, device=logits_NN.device) - 1
            return F.softplus(-sign_NN * logits_NN).sum() / max(1, len(logits_NN))


CLIP_FACTS = LossFacts(vectors=2)

LARGEST_SCALE = math.log(100)


class Clip(nn.Module):
    """CLIP loss: Radford et al., "Learning Transferable Visual Models From Natural Language Supervision", 2021.

    InfoNCE in both directions, averaged, on logits e^t s_ij; e^t starts at 1/0.07 and is at most 100.
    """

    def __init__(self, size: int):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([-math.log(0.07)]))

    def forward(self, views: Float[Tensor, "n 2 d"], *, mask: Bool[Tensor, "n 2"] | None = None) -> Float[Tensor, ""]:
        with torch.autocast(views.device.type, enabled=False):
            logits_NN = cosines(views, mask) * self.scale.clamp(max=LARGEST_SCALE).exp()
            both_N = logits_NN.logsumexp(0) + logits_NN.logsumexp(1) - 2 * logits_NN.diagonal()
            return both_N.sum() / max(1, 2 * len(logits_NN))


def cosines(views: Float[Tensor, "n 2 d"], mask: Bool[Tensor, "n 2"] | None) -> Float[Tensor, "m m"]:
    """Return the cosine of each first vector with each second one; samples with a masked view are skipped."""
    first_ND, second_ND = F.normalize(pairs(views, mask), dim=-1).unbind(1)
    return first_ND @ second_ND.T
