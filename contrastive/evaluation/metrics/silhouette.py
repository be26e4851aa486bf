"""Silhouette of the true classes: how much nearer a text is to its own class than to the next one."""

import numpy as np

from contrastive.config.facts import MetricFacts
from contrastive.evaluation.metrics.types import Inputs, Score, average

FACTS = MetricFacts(of_classes=True)

MEBIBYTES = 64  # of distances at a time


def silhouette(inputs: Inputs) -> list[Score]:
    """Mean of (b − a) / max(a, b): a text's mean Euclidean distance a to the others of its class, b to the nearest
    other class (Rousseeuw 1987). A text that is alone in its class counts 0.
    """
    from sklearn import config_context
    from sklearn.metrics import silhouette_samples

    inputs.check_classes()
    vectors = inputs.embeddings.astype(np.float64)
    vectors -= vectors.mean(0)  # a common mean would take the digits of distances
    values = np.zeros(len(vectors))
    if len(np.unique(inputs.labels)) < len(vectors):
        with config_context(working_memory=MEBIBYTES):
            values = silhouette_samples(vectors, inputs.labels)
    return [average("silhouette", values.astype(np.float32), True)]
