"""Metrics: functions of embeddings, predictions and labels. One file and one line each; see CONTRIBUTING.md."""

from contrastive.metrics.accuracy import accuracy
from contrastive.metrics.kmeans import kmeans
from contrastive.metrics.knn import knn
from contrastive.metrics.macro_f1 import macro_f1
from contrastive.metrics.svm import svm

METRICS = {
    "accuracy": accuracy,
    "macro_f1": macro_f1,
    "svm": svm,
    "knn": knn,
    "kmeans": kmeans,
}
