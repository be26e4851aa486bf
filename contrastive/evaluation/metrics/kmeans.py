"""Clustering by k-means, compared with the classes: ARI, NMI and accuracy."""

import warnings

import numpy as np
from jaxtyping import Float, Integer

from contrastive.config.facts import MetricFacts, ScoreFacts
from contrastive.evaluation.metrics.types import Inputs, Score, proportion

KMEANS_FACTS = MetricFacts(
    scores=(
        ScoreFacts("ari", low=-1.0, counted=True),
        ScoreFacts("nmi", counted=True),
        ScoreFacts("kmeans_accuracy", counted=True),
    ),
    of_classes=True,
)

ONE_NUMBER = "= f(k-means accuracy)"
CLOSE = 0.01  # tolerance of the two formulas, for classes that are nearly balanced


def kmeans(inputs: Inputs) -> list[Score]:
    """ARI, NMI and accuracy (clusters matched one-to-one to classes) of k-means with as many clusters as classes.

    For two balanced classes and balanced clusters the three scores are equivalent: ARI ≈ (2a − 1)² and NMI ≈ 1 − H(a),
    with a the accuracy and H the binary entropy in bits. The unit of ARI and NMI then notes this.
    """
    from scipy.optimize import linear_sum_assignment
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    inputs.check_classes()
    classes, truth = np.unique(inputs.labels, return_inverse=True)
    count = len(truth)
    assigned = clusters(inputs.embeddings, len(classes))
    table = np.zeros((len(classes), len(classes)), np.int64)  # cluster × class
    np.add.at(table, (assigned, truth), 1)
    _, class_of_cluster = linear_sum_assignment(table, maximize=True)
    ari, nmi = float(adjusted_rand_score(truth, assigned)), float(normalized_mutual_info_score(truth, assigned))
    right = proportion("kmeans_accuracy", class_of_cluster[assigned] == truth)
    unit = ONE_NUMBER if redundant(table.sum(0), right.value, ari, nmi) else ""
    return [Score("ari", ari, True, count, unit), Score("nmi", nmi, True, count, unit), right]


def clusters(vectors: Float[np.ndarray, "n d"], count: int) -> Integer[np.ndarray, " n"]:
    """Return the cluster of each vector, from the best of ten k-means starts."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    scaled = np.ldexp(vectors, -np.frexp(np.abs(vectors).max())[1])  # a power of two, so that squares do not overflow
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # collapsed texts have fewer distinct points than clusters
        assigned: Integer[np.ndarray, " n"] = KMeans(count, n_init=10, random_state=0).fit_predict(scaled)
    return assigned


def redundant(sizes: Integer[np.ndarray, " k"], accuracy: float, ari: float, nmi: float) -> bool:
    """Return whether ARI and NMI follow from the accuracy: two classes of 45 to 55 % each, and both formulas hold."""
    shares = np.array([accuracy, 1 - accuracy])
    entropy = -float((shares * np.log2(np.maximum(shares, 1e-12))).sum())
    close = abs(ari - (2 * accuracy - 1) ** 2) <= CLOSE and abs(nmi - (1 - entropy)) <= CLOSE
    return len(sizes) == 2 and bool((sizes / sizes.sum() >= 0.45).all()) and close
