"""Retrieval by class: each text asks for the others of its class, by the cosine (Musgrave et al. 2020)."""

from dataclasses import replace

import numpy as np

from contrastive.errors import UserError
from contrastive.metrics.pairs import Block
from contrastive.metrics.types import Inputs, Score, average, proportion


class Retrieval:
    """Precision at 1, and MAP@R: with R other texts in a class, the sum of the precisions at those k ≤ R whose k-th
    nearest has the class, over R.

    Equally near texts are ranked against us, those of other classes first, and texts are equally near where float32
    cannot tell them from copies: collapsed embeddings find nothing by luck. A text alone in its class asks for nothing:
    it is left out of both means, and NaN in `each`.
    """

    def __init__(self, inputs: Inputs) -> None:
        _, self.own, sizes = np.unique(inputs.labels, return_inverse=True, return_counts=True)
        self.others = sizes[self.own] - 1
        self.asks = self.others > 0
        if not self.asks.any():
            raise UserError(f"each of the {len(self.own)} texts is of a class of its own: there is none to retrieve; "
                            "give the split more texts")  # fmt: skip
        self.first, self.precision = np.full((2, len(self.own)), np.nan, np.float32)

    def look(self, block: Block) -> None:
        told_apart = block.copy_error[:, None].astype(np.float32)
        ranks = np.maximum(block.chords, told_apart).view(np.int32)  # these bits sort as the floats do
        ranks &= ~1
        ranks |= self.own[block.rows, None] == self.own  # the lowest bit says whether the class is the same
        ranks[np.arange(len(ranks)), block.indices] = np.iinfo(np.int32).max  # never among the first R
        for text, row in zip(block.indices, ranks, strict=True):
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
