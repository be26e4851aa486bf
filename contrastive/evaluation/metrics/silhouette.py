"""Silhouette score of the true classes (Rousseeuw 1987)."""

import numpy as np

from contrastive.config.facts import MetricFacts, ScoreFacts
from contrastive.evaluation.metrics.types import Inputs, Score, average

SILHOUETTE_FACTS = MetricFacts(scores=(ScoreFacts("silhouette", low=-1.0),), of_classes=True)

MEBIBYTES = 64  # of distances in memory at a time


def silhouette(inputs: Inputs) -> list[Score]:
    """Mean over texts of (b − a) / max(a, b), with a the mean Euclidean distance to the other texts of its class, and b
    to those of the nearest other class. A text alone in its class counts 0.
    """
    from sklearn import config_context
    from sklearn.metrics import silhouette_samples

    inputs.check_classes()
    vectors = inputs.embeddings.astype(np.float64)
    vectors -= vectors.mean(0)  # a large common mean would cost precision of the distances
    values = np.zeros(len(vectors))
    if len(np.unique(inputs.labels)) < len(vectors):
        with config_context(working_memory=MEBIBYTES):
            values = silhouette_samples(vectors, inputs.labels)
    return [average("silhouette", values.astype(np.float32), True)]
