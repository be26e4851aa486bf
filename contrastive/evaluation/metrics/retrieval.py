"""Retrieval by class: each text asks for the others of its class, by the cosine (Musgrave et al. 2020)."""

from dataclasses import replace

import numpy as np
from jaxtyping import Bool

from contrastive.evaluation.metrics.pairs import Block
from contrastive.evaluation.metrics.types import Inputs, NotMeasurable, Score, average, proportion

LAST_BITS = 2**12 - 1  # of a float64: by them equal distances differ, as their sums are ordered
SURE = 1000  # times what float64 may be off by: beyond it the order of distances is that of the texts


class Retrieval:
    """Precision at 1, and MAP@R: with R other texts in a class, the sum of the precisions at those k ≤ R whose k-th
    nearest has the class, over R.

    Equally near texts are ranked against us, those of other classes first, and texts are equally near where float64
    can hardly tell them from copies: collapsed embeddings find nothing by luck. A text alone in its class asks for
    nothing: it is left out of both means, and NaN in `each`.
    """

    def __init__(self, inputs: Inputs) -> None:
        inputs.check_classes()
        _, self.own, sizes = np.unique(inputs.labels, return_inverse=True, return_counts=True)
        self.others = sizes[self.own] - 1
        self.asks = self.others > 0
        if not self.asks.any():
            raise NotMeasurable(
                f"each of the {len(self.own)} texts is of a class of its own: there is none to retrieve; give the "
                "split more texts"
            )
        self.first, self.precision = np.full((2, len(self.own)), np.nan, np.float32)

    def look(self, block: Block) -> None:
        near = block.chords < block.copy_error[:, None]
        near &= block.chords > 0  # of copies it is 0
        unsure = np.asarray(near.any(1))
        self.rank(block, ~unsure)
        if unsure.any():
            self.rank(Block(block.texts.exact, block.indices[unsure]), np.ones(int(unsure.sum()), bool))

    def rank(self, block: Block, chosen: Bool[np.ndarray, " m"]) -> None:
        told_apart = block.copy_error[:, None].astype(block.chords.dtype)
        told_apart *= SURE if block.chords.dtype == np.float64 else 1
        bits, lost = (np.int32, 1) if block.chords.dtype == np.float32 else (np.int64, LAST_BITS)
        ranks = np.maximum(block.chords, told_apart).view(bits)  # these bits sort as the floats do
        ranks &= ~lost
        ranks |= self.own[block.indices, None] == self.own  # the lowest bit says whether the class is the same
        ranks[np.arange(len(ranks)), block.indices] = np.iinfo(bits).max  # never among the first R
        for text, row in zip(block.indices[chosen], ranks[chosen], strict=True):
            wanted = self.others[text]
            if wanted:
                row.partition(wanted - 1)
                row[:wanted].sort()
                found = np.flatnonzero(row[:wanted] & 1) + 1.0
                self.first[text] = row[0] & 1
                self.precision[text] = (np.arange(1, len(found) + 1) / found).sum() / wanted

    def scores(self) -> list[Score]:
        asks, alone = self.asks, not self.asks.all()
        first = proportion("precision_at_1", self.first[asks] == 1)
        precision = average("map_at_r", self.precision[asks], True)
        return [replace(first, each=self.first if alone else first.each), replace(precision, each=self.precision)]
