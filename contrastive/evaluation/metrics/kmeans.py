"""How well k-means, which sees no label, finds the classes."""

import warnings

import numpy as np
from jaxtyping import Float, Integer

from contrastive.config.facts import MetricFacts
from contrastive.evaluation.metrics.types import Inputs, Score, proportion

FACTS = MetricFacts(scores=("ari", "nmi", "kmeans_accuracy"), of_classes=True)

ONE_NUMBER = "= f(k-means accuracy)"
CLOSE = 0.01  # how far the two formulas may be off where the classes are not quite balanced


def kmeans(inputs: Inputs) -> list[Score]:
    """ARI, NMI and accuracy (clusters named by the best one-to-one matching) of as many clusters as classes.

    For balanced binary labels, where the clusters are balanced too, the three say one thing: ARI ≈ (2a − 1)² and
    NMI ≈ 1 − H(a), a the accuracy and H the entropy of a coin that shows it, in bits. The unit of the first two then
    says so.
    """
    from scipy.optimize import linear_sum_assignment
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    inputs.check_classes()
    classes, truth = np.unique(inputs.labels, return_inverse=True)
    count = len(truth)
    own = clusters(inputs.embeddings, len(classes))
    table = np.zeros((len(classes), len(classes)), np.int64)  # cluster × class
    np.add.at(table, (own, truth), 1)
    _, class_of_cluster = linear_sum_assignment(table, maximize=True)
    ari, nmi = float(adjusted_rand_score(truth, own)), float(normalized_mutual_info_score(truth, own))
    right = proportion("kmeans_accuracy", class_of_cluster[own] == truth)
    unit = ONE_NUMBER if redundant(table.sum(0), right.value, ari, nmi) else ""
    return [Score("ari", ari, True, count, unit), Score("nmi", nmi, True, count, unit), right]


def clusters(vectors: Float[np.ndarray, "n d"], count: int) -> Integer[np.ndarray, " n"]:
    """The cluster of each vector, by the best of ten starts."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    scaled = np.ldexp(vectors, -np.frexp(np.abs(vectors).max())[1])  # to a size whose squares are numbers
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # collapsed texts are fewer distinct points than clusters
        own: Integer[np.ndarray, " n"] = KMeans(count, n_init=10, random_state=0).fit_predict(scaled)
    return own


def redundant(sizes: Integer[np.ndarray, " k"], accuracy: float, ari: float, nmi: float) -> bool:
    """Whether ARI and NMI follow from the accuracy: of two classes, each of 45 to 55 %, and clusters alike."""
    shares = np.array([accuracy, 1 - accuracy])
    entropy = -float((shares * np.log2(np.maximum(shares, 1e-12))).sum())
    close = abs(ari - (2 * accuracy - 1) ** 2) <= CLOSE and abs(nmi - (1 - entropy)) <= CLOSE
    return len(sizes) == 2 and bool((sizes / sizes.sum() >= 0.45).all()) and close
