"""Local purity: accuracy of the nearest neighbour in cross-validation."""

import numpy as np
from jaxtyping import Bool, Float, Integer

from contrastive.evaluation.metrics.folds import folds
from contrastive.evaluation.metrics.pairs import Block
from contrastive.evaluation.metrics.types import Inputs, Score, proportion

FEW = 100  # candidates of a text, up to which one by one is faster than a product in float64


class Knn:
    """Share of texts whose nearest neighbour in the other folds has their class: Euclidean, and by the cosine.

    Float32 finds the candidates, float64 decides among them. Of equally near texts the first wins; texts whose
    distances float64 cannot tell apart are equally near.
    """

    def __init__(self, inputs: Inputs) -> None:
        self.labels = inputs.labels
        self.fold = np.empty(len(self.labels), np.int64)
        for number, (_, test) in enumerate(folds(inputs)):
            self.fold[test] = number
        self.barred = np.where(np.arange(inputs.folds)[:, None] == self.fold, np.inf, 0).astype(np.float32)
        self.euclidean, self.cosine = np.empty((2, len(self.labels)), np.int64)

    def look(self, block: Block) -> None:
        barred = self.barred[self.fold[block.rows]]
        self.euclidean[block.rows] = nearest(block, barred, normalised=False)
        self.cosine[block.rows] = nearest(block, barred, normalised=True)

    def scores(self) -> list[Score]:
        return [
            proportion("knn_accuracy", self.labels[self.euclidean] == self.labels),
            proportion("knn_cosine_accuracy", self.labels[self.cosine] == self.labels),
        ]


def nearest(block: Block, barred: Float[np.ndarray, "m n"], *, normalised: bool) -> Integer[np.ndarray, " m"]:
    """The nearest text of each row; `barred` is infinite where a text may not be it."""
    distances, error = (block.chords, block.chord_error) if normalised else (block.squares, block.square_error)
    distances = distances + barred
    every = np.arange(len(distances))
    found = distances.argmin(1)
    least = distances[every, found]
    limit = np.nextafter((least + 2 * error).astype(distances.dtype), np.inf)
    distances[every, found] = np.inf
    unsure = np.flatnonzero(distances[every, distances.argmin(1)] <= limit)
    distances[every, found] = least
    close = distances[unsure] <= limit[unsure, None]
    few = np.count_nonzero(close, axis=1) <= FEW
    found[unsure[few]] = first_of_nearest(block, unsure[few], close[few], normalised)
    many = unsure[~few]
    if len(many):
        exact = Block(block.texts.exact, block.indices[many])
        distances, error = (exact.chords, exact.chord_error) if normalised else (exact.squares, exact.square_error)
        distances = distances + barred[many]
        found[many] = (distances <= distances.min(1, keepdims=True) + 2 * error[:, None]).argmax(1)
    return found


def first_of_nearest(
    block: Block, rows: Integer[np.ndarray, " r"], close: Bool[np.ndarray, "r n"], normalised: bool
) -> Integer[np.ndarray, " r"]:
    """Of the texts close to each row the nearest, by exact differences."""
    row, other = close.nonzero()
    apart = block.texts.apart(block.indices[rows][row], other, normalised=normalised)
    least = np.minimum.reduceat(apart, np.searchsorted(row, np.arange(len(rows)))) if len(rows) else apart
    tied = np.flatnonzero(apart == least[row])
    return other[tied[np.searchsorted(row[tied], np.arange(len(rows)))]]
