"""Registry of poolings, which make one vector of the vectors of a text's tokens: one function and one line each."""

import torch
from jaxtyping import Float
from torch import Tensor

from contrastive.views.batches import Batch


def first_token(hidden: Float[Tensor, "n s d"], batch: Batch) -> Float[Tensor, "n d"]:
    return hidden[:, 0]


def mean_token(hidden: Float[Tensor, "n s d"], batch: Batch) -> Float[Tensor, "n d"]:
    weight = batch.attention_mask[..., None].to(hidden.dtype)
    return (hidden * weight).sum(1) / weight.sum(1)


def last_token(hidden: Float[Tensor, "n s d"], batch: Batch) -> Float[Tensor, "n d"]:
    """Return the last token's vector, the only one in a causal language model that has seen the whole text."""
    place = batch.attention_mask.sum(1) - 1
    return hidden[torch.arange(len(hidden), device=hidden.device), place]


def weighted_token(hidden: Float[Tensor, "n s d"], batch: Batch) -> Float[Tensor, "n d"]:
    """Return the mean of the tokens weighted by their places from 1 (Muennighoff, "SGPT", 2022)."""
    weight = (batch.attention_mask.cumsum(1) * batch.attention_mask)[..., None].to(hidden.dtype)
    return (hidden * weight).sum(1) / weight.sum(1)


# echo: the encoder reads the text twice and returns the states of the second copy (Springer et al., 2024)
POOLINGS = {
    "cls": first_token,
    "mean": mean_token,
    "last": last_token,
    "weighted": weighted_token,
    "echo": mean_token,
}
# names of those that sentence-transformers has
POOLING_MODES = {"cls": "cls_token", "mean": "mean_tokens", "last": "lasttoken", "weighted": "weightedmean_tokens"}
