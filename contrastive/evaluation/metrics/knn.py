"""Cross-validated accuracy of the nearest neighbour (1-NN), by Euclidean distance and by cosine."""

import numpy as np
from jaxtyping import Float, Integer

from contrastive.config.facts import MetricFacts, ScoreFacts
from contrastive.evaluation.metrics import pairs
from contrastive.evaluation.metrics.linear import folds
from contrastive.evaluation.metrics.types import Inputs, Score, proportion

KNN_FACTS = MetricFacts(
    scores=(
        ScoreFacts("knn_accuracy", counted=True, guessed=True),
        ScoreFacts("knn_cosine_accuracy", counted=True, guessed=True),
    ),
    of_classes=True,
    folded=True,
)


def knn(inputs: Inputs) -> list[Score]:
    """Share of texts whose nearest neighbour in the other folds has the same class, Euclidean and by cosine."""
    labels, fold = inputs.labels, np.empty(len(inputs.labels), np.int64)
    for number, (_, test) in enumerate(folds(inputs)):
        fold[test] = number
    vectors = inputs.embeddings.astype(np.float64)
    vectors -= vectors.mean(0)  # a large common mean would cost precision of the distances
    return [
        proportion("knn_accuracy", labels[nearest_text(vectors, fold)] == labels),
        proportion("knn_cosine_accuracy", labels[nearest_text(pairs.unit_rows(inputs.embeddings), fold)] == labels),
    ]


def nearest_text(vectors: Float[np.ndarray, "n d"], fold: Integer[np.ndarray, " n"]) -> Integer[np.ndarray, " n"]:
    """Return the nearest text of another fold; ties go to the first."""

    def nearest(rows: slice, apart: Float[np.ndarray, "m n"]) -> Integer[np.ndarray, " m"]:
        return np.where(fold[rows, None] == fold, np.inf, apart).argmin(1)

    return np.concatenate(pairs.over_blocks(nearest, vectors))
