"""Vectors of a text that an evaluation may ask for beside those that trained."""

from jaxtyping import Float
from torch import Tensor

from contrastive.models.encoder import POOLINGS, mean_token
from contrastive.views.types import Encoded


def of(name: str, encoded: Encoded) -> Float[Tensor, "n d"]:
    """`cls` and `mean` of the last block; `first_last`: mean over tokens of the first and of the last block, averaged;
    `layer:I:cls` and `layer:I:mean` of block I's output, counted from 0."""
    if name == "first_last":
        first, last = (mean_token(encoded.hidden[block], encoded.batch) for block in (0, -1))
        return (first + last) / 2
    *_, block, pooling = ("", "", "-1", name) if ":" not in name else name.split(":")
    return POOLINGS[pooling](encoded.hidden[int(block)], encoded.batch)
