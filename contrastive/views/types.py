"""Types passed from encoder to view to loss. Shapes: n samples, s tokens, v vectors, p passes, d, c."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from contrastive.views.batches import Batch


class Hidden:
    """Hidden states of an encoder: `hidden[i]` is block i's output, `hidden.into(i)` its input.

    `states` begins with the input of block `first`; the blocks below were computed elsewhere and are not available.
    """

    def __init__(self, states: Sequence[Float[Tensor, "n s d"]], first: int):
        self.states, self.first = states, first

    def __len__(self) -> int:
        return self.first + len(self.states) - 1

    def __getitem__(self, block: int) -> Float[Tensor, "n s d"]:
        return self.into((block + len(self) if block < 0 else block) + 1)

    def into(self, block: int) -> Float[Tensor, "n s d"]:
        if not self.first <= block <= len(self):
            raise IndexError(
                f"the input of block {block} was not computed; those of blocks {self.first} to {len(self) - 1} were"
            )
        return self.states[block - self.first]


@dataclass(frozen=True)
class Encoded:
    """One pass of the encoder over a batch."""

    hidden: Hidden
    batch: Batch
    pool: Callable[[Tensor, Batch], Tensor]
    dropout: Callable[[Tensor], Tensor]
    attention_row: Callable[["Encoded", int], Tensor]

    def pooled(self, block: int = -1) -> Float[Tensor, "n d"]:
        """Return a block's sentence vector: its CLS vector or the mean of its tokens, as the encoder is configured."""
        return self.pool(self.hidden[block], self.batch)

    def cls_attention(self, block: int = -1) -> Float[Tensor, "n s"]:
        """Return CLS's attention to each token in a block, averaged over its heads, without gradient."""
        return self.attention_row(self, block % len(self.hidden))


Encode: TypeAlias = Callable[..., Encoded]  # a batch, and the changes of `encoder.encode` by name


@dataclass(frozen=True)
class VectorGroup:
    """Vectors that one contrastive term compares; vectors outside the mask do not exist.

    `targets` are the same texts' vectors by the encoder's slow copy, if the view has one; `negatives` are vectors of
    hard negatives from the data.
    """

    vectors: Float[Tensor, "n v d"]
    mask: Bool[Tensor, "n v"]
    targets: Float[Tensor, "n v d"] | None = None
    negatives: Float[Tensor, "n d"] | None = None


@dataclass(frozen=True)
class View:
    """The groups of a batch (one, or one per chosen layer), and the sentence vectors that the head reads."""

    groups: list[VectorGroup]
    sentences: Float[Tensor, "n p d"]


@dataclass(frozen=True)
class Guesses:
    """For the hidden tokens of each text: the sum of −log of their guessed probabilities, and their number."""

    surprise: Float[Tensor, " n"]
    hidden: Int[Tensor, " n"]


@dataclass(frozen=True)
class Output:
    """A view with the head's predictions and the guesses of hidden words; None where the objective needs none."""

    groups: list[VectorGroup]
    sentences: Float[Tensor, "n p d"]
    logits: Float[Tensor, "n p c"] | None
    guesses: Guesses | None = None


def unmasked(vectors: Float[Tensor, "n v d"]) -> VectorGroup:
    """Return a group in which every vector exists."""
    return VectorGroup(vectors, vectors.new_ones(vectors.shape[:2]).bool())


def as_pairs(vectors: Float[Tensor, "m d"]) -> Float[Tensor, "n 2 d"]:
    """Return the two vectors of each text of a doubled batch (`Batch.times`)."""
    return torch.stack(vectors.chunk(2), dim=1)
