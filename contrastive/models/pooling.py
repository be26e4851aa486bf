"""Registry of poolings, which make one vector of the vectors of a text's tokens: one function and one line each."""

from jaxtyping import Float
from torch import Tensor

from contrastive.views.batches import Batch


def first_token(hidden: Float[Tensor, "n s d"], batch: Batch) -> Float[Tensor, "n d"]:
    return hidden[:, 0]


def mean_token(hidden: Float[Tensor, "n s d"], batch: Batch) -> Float[Tensor, "n d"]:
    weight = batch.attention_mask[..., None].to(hidden.dtype)
    return (hidden * weight).sum(1) / weight.sum(1)


POOLINGS = {
    "cls": first_token,
    "mean": mean_token,
}
