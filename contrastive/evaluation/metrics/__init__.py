"""Registry of metrics of embeddings and predictions: one file and one line in `METRICS` each; see CONTRIBUTING.md."""

from collections.abc import Callable, Iterable

from contrastive.evaluation.metrics.accuracy import accuracy
from contrastive.evaluation.metrics.alignment import alignment
from contrastive.evaluation.metrics.anisotropy import anisotropy
from contrastive.evaluation.metrics.ece import ece
from contrastive.evaluation.metrics.few_labels import few_labels
from contrastive.evaluation.metrics.kmeans import kmeans
from contrastive.evaluation.metrics.knn import knn
from contrastive.evaluation.metrics.logistic import logistic
from contrastive.evaluation.metrics.macro_f1 import macro_f1
from contrastive.evaluation.metrics.retrieval import retrieval
from contrastive.evaluation.metrics.silhouette import silhouette
from contrastive.evaluation.metrics.svm import svm
from contrastive.evaluation.metrics.types import Inputs, NotMeasurable, Score
from contrastive.evaluation.metrics.uniformity import uniformity

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
