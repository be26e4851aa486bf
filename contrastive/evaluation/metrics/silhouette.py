"""Silhouette of the true classes: how much nearer a text is to its own class than to the next one."""

import numpy as np

from contrastive.evaluation.metrics.pairs import Block
from contrastive.evaluation.metrics.types import Inputs, Score, average


class Silhouette:
    """Mean of (b − a) / max(a, b): a text's mean Euclidean distance a to the others of its class, b to the nearest
    other class (Rousseeuw 1987). A text that is alone in its class counts 0.

    Distances are float32's: what lies nearer than 1e-3 of the spread may be off by as much, but copies are 0 apart.
    """

    def __init__(self, inputs: Inputs) -> None:
        inputs.check_classes()
        _, self.own, self.sizes = np.unique(inputs.labels, return_inverse=True, return_counts=True)
        self.order = np.argsort(self.own, kind="stable")
        self.begins = np.cumsum(self.sizes) - self.sizes
        self.values = np.empty(len(self.own), np.float32)

    def look(self, block: Block) -> None:
        distances = np.take(block.squares, self.order, axis=1)
        np.sqrt(distances, out=distances)
        sums = np.add.reduceat(distances, self.begins, axis=1).astype(np.float64)
        rows, own = np.arange(len(sums)), self.own[block.rows]
        within = sums[rows, own] / np.maximum(self.sizes[own] - 1, 1)
        means = sums / self.sizes
        means[rows, own] = np.inf
        between = means.min(1)
        larger = np.maximum(within, between)
        counted = (larger > 0) & (self.sizes[own] > 1)
        self.values[block.rows] = np.where(counted, (between - within) / np.where(counted, larger, 1), 0)

    def scores(self) -> list[Score]:
        return [average("silhouette", self.values, True)]
