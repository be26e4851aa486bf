"""Local purity: accuracy of the nearest neighbour in cross-validation."""

import numpy as np
from jaxtyping import Float, Integer

from contrastive.metrics.folds import folds
from contrastive.metrics.types import Inputs, Score, proportion

ROWS = 1024  # texts compared at a time: 25 000 texts at once would need 4 GB


def knn(inputs: Inputs) -> list[Score]:
    """Share of texts whose Euclidean nearest neighbour in the other folds has their class."""
    vectors = inputs.embeddings.astype(np.float64)
    vectors -= vectors.mean(0)  # distances stay, and collapsed embeddings keep their digits
    right = np.zeros(len(inputs.labels), bool)
    for train, test in folds(inputs):
        for rows in np.array_split(test, -(-len(test) // ROWS)):
            right[rows] = inputs.labels[train[nearest(vectors[rows], vectors[train])]] == inputs.labels[rows]
    return [proportion("knn_accuracy", right)]


def nearest(queries: Float[np.ndarray, "m d"], points: Float[np.ndarray, "n d"]) -> Integer[np.ndarray, " m"]:
    """The index of the nearest point of each query; of equally near ones the first, whatever the rounding."""
    squares = (points**2).sum(1)
    distances = squares - 2 * queries @ points.T  # |x − y|² up to |x|², the same for all y
    tied = distances <= distances.min(1, keepdims=True) + 1e-12 * squares.max()
    return tied.argmax(1)
