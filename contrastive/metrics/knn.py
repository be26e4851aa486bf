"""Local purity: accuracy of the nearest neighbour in cross-validation."""

import numpy as np

from contrastive.metrics.folds import folds
from contrastive.metrics.types import Inputs, Score, proportion


def knn(inputs: Inputs) -> list[Score]:
    """Share of texts whose Euclidean nearest neighbour in the other folds has their class."""
    vectors = inputs.embeddings.astype(np.float64)
    squares = (vectors**2).sum(1)
    right = np.zeros(len(inputs.labels), bool)
    for train, test in folds(inputs):
        # |x − y|² up to |x|², which does not change which y is nearest
        nearest = (squares[train] - 2 * vectors[test] @ vectors[train].T).argmin(1)
        right[test] = inputs.labels[train][nearest] == inputs.labels[test]
    return [proportion("knn_accuracy", right)]
