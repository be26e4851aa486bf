"""Measures of embeddings, predictions and labels. One file and one line each; see CONTRIBUTING.md."""

from collections.abc import Iterable
from typing import Any

from contrastive.metrics.accuracy import accuracy
from contrastive.metrics.kmeans import kmeans
from contrastive.metrics.knn import knn
from contrastive.metrics.logistic import logistic
from contrastive.metrics.macro_f1 import macro_f1
from contrastive.metrics.svm import svm
from contrastive.metrics.types import Inputs, Score

METRICS = {
    "accuracy": accuracy,
    "macro_f1": macro_f1,
    "svm": svm,
    "logistic": logistic,
    "knn": knn,
    "kmeans": kmeans,
}


def measure(names: Iterable[str], inputs: Inputs) -> list[Score]:
    """The scores of the named measures, in their order."""
    made: list[Any] = [METRICS[name] for name in names]
    return [score for measured in made for score in measured(inputs)]
