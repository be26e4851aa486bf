"""Registry of metrics of embeddings and predictions: one line in `METRICS` each; see CONTRIBUTING.md."""

from collections.abc import Callable, Iterable

from contrastive.evaluation.metrics.classification import accuracy, ece, few_labels, logistic, macro_f1, svm
from contrastive.evaluation.metrics.clusters import kmeans, knn, retrieval, silhouette
from contrastive.evaluation.metrics.geometry import alignment, anisotropy, uniformity
from contrastive.evaluation.metrics.types import Inputs, NotMeasurable, Score

METRICS: dict[str, Callable[[Inputs], list[Score]]] = {
    "accuracy": accuracy,
    "macro_f1": macro_f1,
    "ece": ece,
    "svm": svm,
    "logistic": logistic,
    "few_labels": few_labels,
    "knn": knn,
    "kmeans": kmeans,
    "silhouette": silhouette,
    "alignment": alignment,
    "uniformity": uniformity,
    "anisotropy": anisotropy,
    "retrieval": retrieval,
}


def measure(names: Iterable[str], inputs: Inputs, left_out: dict[str, str] | None = None) -> list[Score]:
    """Compute the scores of the named metrics, in this order.

    Raise NotMeasurable if a metric is undefined for these texts; with `left_out`, store the reason there and go on.
    """
    scores: list[Score] = []
    for name in names:
        try:
            scores += METRICS[name](inputs)
        except NotMeasurable as error:
            if left_out is None:
                raise
            left_out[name] = str(error)
    return scores
