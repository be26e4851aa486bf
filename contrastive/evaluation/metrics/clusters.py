"""Metrics of neighbours and clusters: whether near embeddings are of one class."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float, Integer

from contrastive.config.facts import MetricFacts, ScoreFacts
from contrastive.evaluation.metrics.geometry import over_blocks, unit_rows
from contrastive.evaluation.metrics.linear import folds
from contrastive.evaluation.metrics.types import Inputs, NotMeasurable, Score, average, proportion

KNN_FACTS = MetricFacts(
    scores=(
        ScoreFacts("knn_accuracy", counted=True, guessed=True),
        ScoreFacts("knn_cosine_accuracy", counted=True, guessed=True),
    ),
    of_classes=True,
    folded=True,
)


def knn(inputs: Inputs) -> list[Score]:
    """Cross-validated accuracy of the nearest neighbour (1-NN): the share of texts whose nearest text in the other
    folds has their class, by Euclidean distance and by cosine."""
    labels, fold = inputs.labels, np.empty(len(inputs.labels), np.int64)
    for number, (_, test) in enumerate(folds(inputs)):
        fold[test] = number
    vectors = inputs.embeddings.astype(np.float64)
    vectors -= vectors.mean(0)  # a large common mean would cost precision of the distances
    return [
        proportion("knn_accuracy", labels[nearest_text(vectors, fold)] == labels),
        proportion("knn_cosine_accuracy", labels[nearest_text(unit_rows(inputs.embeddings), fold)] == labels),
    ]


def nearest_text(vectors: Float[np.ndarray, "n d"], fold: Integer[np.ndarray, " n"]) -> Integer[np.ndarray, " n"]:
    """Return the nearest text of another fold; ties go to the first."""

    def nearest(rows: slice, apart: Float[np.ndarray, "m n"]) -> Integer[np.ndarray, " m"]:
        return np.where(fold[rows, None] == fold, np.inf, apart).argmin(1)

    return np.concatenate(over_blocks(nearest, vectors))


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
    """Clustering by k-means with as many clusters as classes: ARI, NMI, and accuracy (clusters matched one-to-one).

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


SILHOUETTE_FACTS = MetricFacts(scores=(ScoreFacts("silhouette", low=-1.0),), of_classes=True)

MEBIBYTES = 64  # of distances in memory at a time


def silhouette(inputs: Inputs) -> list[Score]:
    """Silhouette score of the true classes (Rousseeuw 1987).

    Mean over texts of (b − a) / max(a, b), with a the mean Euclidean distance to the other texts of its class, and b to
    those of the nearest other class. A text alone in its class counts 0.
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


RETRIEVAL_FACTS = MetricFacts(scores=(ScoreFacts("precision_at_1"), ScoreFacts("map_at_r")), of_classes=True)

EQUAL = 1e-12  # squared distances that differ by less count as ties: float32 vectors are no more exact


def retrieval(inputs: Inputs) -> list[Score]:
    """Retrieval by class with cosine similarity: precision at 1 and MAP@R (Musgrave et al. 2020).

    Each text queries the R other texts of its class. MAP@R sums the precisions at those k ≤ R
    whose k-th nearest text has the class, and divides by R. Among equally near texts other classes rank first, so that
    collapsed embeddings do not score by luck. A text alone in its class is left out of both means, and NaN in
    `per_example`.
    """
    inputs.check_classes()
    _, classes, sizes = np.unique(inputs.labels, return_inverse=True, return_counts=True)
    queries = sizes[classes] > 1
    if not queries.any():
        raise NotMeasurable(
            f"each of the {len(classes)} texts has its own class, so there is nothing to retrieve: add texts"
        )
    first, precision = query_scores(inputs.embeddings, classes, sizes[classes] - 1)
    scores = proportion("precision_at_1", first[queries] == 1), average("map_at_r", precision[queries], True)
    precision_at_1 = scores[0].per_example if queries.all() else first
    return [replace(scores[0], per_example=precision_at_1), replace(scores[1], per_example=precision)]


def query_scores(
    vectors: Float[np.ndarray, "n d"], classes: Integer[np.ndarray, " n"], others: Integer[np.ndarray, " n"]
) -> Float[np.ndarray, "2 n"]:
    """Return whether the nearest text has the class, and MAP@R, per text; NaN if there are no other texts."""
    results = np.full((2, len(classes)), np.nan, np.float32)

    def rank(rows: slice, apart: Any) -> None:
        ranks = np.round(apart / EQUAL).astype(np.int64) * 2
        ranks |= classes[rows, None] == classes  # lowest bit: same class, which also ranks last among ties
        for text, row in enumerate(ranks, start=rows.start):
            relevant, row[text] = others[text], np.iinfo(np.int64).max  # the text itself ranks last
            if relevant:
                row.sort()
                hits = np.flatnonzero(row[:relevant] & 1) + 1.0
                results[:, text] = row[0] & 1, (np.arange(1, len(hits) + 1) / hits).sum() / relevant

    over_blocks(rank, unit_rows(vectors))
    return results
