"""How well k-means, which sees no label, finds the classes."""

import numpy as np
from jaxtyping import Integer

from contrastive.metrics.lloyd import clusters
from contrastive.metrics.types import Inputs, Score, proportion

ONE_NUMBER = "= f(k-means accuracy)"


def kmeans(inputs: Inputs) -> list[Score]:
    """ARI, NMI and accuracy (clusters named by the best one-to-one matching) of as many clusters as classes.

    For balanced binary labels the three say one thing: ARI ≈ (2a − 1)² and NMI ≈ 1 − H(a), a the accuracy and H the
    entropy of a coin that shows it, in bits. The unit of the first two then says so.
    """
    from scipy.optimize import linear_sum_assignment
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    classes, truth = np.unique(inputs.labels, return_inverse=True)
    count = len(truth)
    found = clusters(inputs.embeddings, len(classes))
    table = np.zeros((len(classes), len(classes)), np.int64)  # cluster × class
    np.add.at(table, (found, truth), 1)
    _, class_of_cluster = linear_sum_assignment(table, maximize=True)
    unit = ONE_NUMBER if redundant(table.sum(0)) else ""
    return [
        Score("ari", float(adjusted_rand_score(truth, found)), True, count, unit),
        Score("nmi", float(normalized_mutual_info_score(truth, found)), True, count, unit),
        proportion("kmeans_accuracy", class_of_cluster[found] == truth),
    ]


def redundant(sizes: Integer[np.ndarray, " k"]) -> bool:
    """Whether classes of these sizes make ARI and NMI functions of the accuracy: two, each of 45 to 55 %."""
    return len(sizes) == 2 and bool((sizes / sizes.sum() >= 0.45).all())
