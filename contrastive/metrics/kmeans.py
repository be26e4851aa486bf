"""How well k-means, which sees no label, finds the classes."""

import warnings

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from contrastive.metrics.types import Inputs, Score, proportion


def kmeans(inputs: Inputs) -> list[Score]:
    """ARI, NMI and accuracy (clusters named by the best one-to-one matching) of as many clusters as classes.

    For balanced binary labels the three say one thing: ARI ≈ (2a − 1)² and NMI ≈ 1 − H(a), a the accuracy.
    """
    classes, truth = np.unique(inputs.labels, return_inverse=True)
    count = len(truth)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # collapsed embeddings have fewer points than classes
        found = KMeans(len(classes), n_init=10, random_state=0).fit_predict(inputs.embeddings)
    table = np.zeros((len(classes), len(classes)), np.int64)  # cluster × class
    np.add.at(table, (found, truth), 1)
    _, class_of_cluster = linear_sum_assignment(table, maximize=True)
    return [
        Score("ari", float(adjusted_rand_score(inputs.labels, found)), True, count),
        Score("nmi", float(normalized_mutual_info_score(inputs.labels, found)), True, count),
        proportion("kmeans_accuracy", class_of_cluster[found] == truth),
    ]
