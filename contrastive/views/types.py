"""What an encoder gives to a view, and a view to the losses. Shapes: n samples, s tokens, v vectors, p passes, d, c."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from jaxtyping import Bool, Float, Int
from torch import Tensor

from contrastive.batches import Batch


@dataclass(frozen=True)
class Encoded:
    """One pass of the encoder over a batch. Block i's output is `hidden[i]`; what went into block 0 is `inputs`."""

    inputs: Float[Tensor, "n s d"]
    hidden: tuple[Float[Tensor, "n s d"], ...]
    batch: Batch
    pool: Callable[[Tensor, Batch], Tensor]
    dropout: Callable[[Tensor], Tensor]
    attention_row: Callable[["Encoded", int], Tensor]

    def pooled(self, block: int = -1) -> Float[Tensor, "n d"]:
        """The sentence vector of a block: its CLS vector, or the mean over its tokens, as the encoder is configured."""
        return self.pool(self.hidden[block], self.batch)

    def cls_attention(self, block: int = -1) -> Float[Tensor, "n s"]:
        """How much CLS attends to each token in a block, the mean over its heads. No gradient."""
        return self.attention_row(self, block % len(self.hidden))


Encode: TypeAlias = Callable[..., Encoded]  # a batch, and the changes of `encoder.encode` by name


@dataclass(frozen=True)
class Group:
    """Vectors that one contrastive term compares; what the mask leaves out does not exist.

    `targets` are the same texts' vectors by the encoder's slow copy, where the view has one; `negatives` those of
    texts of the data that look alike and are not.
    """

    vectors: Float[Tensor, "n v d"]
    mask: Bool[Tensor, "n v"]
    targets: Float[Tensor, "n v d"] | None = None
    negatives: Float[Tensor, "n d"] | None = None


@dataclass(frozen=True)
class View:
    """The groups of a batch (one, or one a chosen layer), and the sentence vectors that the head reads."""

    groups: list[Group]
    sentences: Float[Tensor, "n p d"]


@dataclass(frozen=True)
class Guesses:
    """Of the hidden tokens of each text: −log of the probability that they were guessed with, summed; their number."""

    surprise: Float[Tensor, " n"]
    hidden: Int[Tensor, " n"]


@dataclass(frozen=True)
class Output:
    """A view with the head's predictions and the guesses of hidden words; None where the objective needs them not."""

    groups: list[Group]
    sentences: Float[Tensor, "n p d"]
    logits: Float[Tensor, "n p c"] | None
    guesses: Guesses | None = None


def whole(vectors: Float[Tensor, "n v d"]) -> Group:
    """A group in which every vector exists."""
    return Group(vectors, vectors.new_ones(vectors.shape[:2]).bool())
