"""Uniformity: how evenly the directions of texts cover the sphere (Wang & Isola 2020)."""

import numpy as np

from contrastive.evaluation.metrics.pairs import Block
from contrastive.evaluation.metrics.types import Inputs, Score


class Uniformity:
    """log of the mean over pairs of exp(−2·|x − y|²), normalised: 0 where all are one, near −4 in random directions."""

    def __init__(self, inputs: Inputs) -> None:
        self.sums = np.empty(len(inputs.labels))

    def look(self, block: Block) -> None:
        potential = -2 * block.chords
        np.exp(potential, out=potential)
        potential[np.arange(len(potential)), block.indices] = 0  # a text and itself are no pair
        self.sums[block.rows] = potential.sum(1)

    def scores(self) -> list[Score]:
        count = len(self.sums)
        return [Score("uniformity", float(np.log(self.sums.sum() / (count * (count - 1)))), False, count)]
