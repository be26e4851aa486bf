"""How well k-means, which sees no label, finds the classes."""

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from contrastive.metrics.types import Inputs, Score


def kmeans(inputs: Inputs) -> list[Score]:
    """ARI, NMI and accuracy (clusters named by the best one-to-one matching) of as many clusters as classes.

    For balanced binary labels the three say one thing: ARI ≈ (2a − 1)² and NMI ≈ 1 − H(a), a the accuracy.
    """
    classes, count = len(np.unique(inputs.labels)), len(inputs.labels)
    found = KMeans(classes, n_init=10, random_state=0).fit_predict(inputs.embeddings)
    table = contingency_matrix(inputs.labels, found)
    rows, columns = linear_sum_assignment(-table)
    return [
        Score("ari", float(adjusted_rand_score(inputs.labels, found)), True, count),
        Score("nmi", float(normalized_mutual_info_score(inputs.labels, found)), True, count),
        Score("kmeans_accuracy", float(table[rows, columns].sum() / count), True, count),
    ]
