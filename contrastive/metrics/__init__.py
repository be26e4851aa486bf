"""Measures of embeddings, predictions and labels. One file and one line each; see CONTRIBUTING.md."""

from collections.abc import Callable, Iterable

from contrastive.metrics import pairs
from contrastive.metrics.accuracy import accuracy
from contrastive.metrics.alignment import alignment
from contrastive.metrics.anisotropy import anisotropy
from contrastive.metrics.ece import ece
from contrastive.metrics.kmeans import kmeans
from contrastive.metrics.knn import Knn
from contrastive.metrics.logistic import logistic
from contrastive.metrics.macro_f1 import macro_f1
from contrastive.metrics.retrieval import Retrieval
from contrastive.metrics.silhouette import Silhouette
from contrastive.metrics.svm import svm
from contrastive.metrics.types import Inputs, Score
from contrastive.metrics.uniformity import Uniformity

METRICS: dict[str, Callable[[Inputs], list[Score]] | type[pairs.Measure]] = {
    "accuracy": accuracy,
    "macro_f1": macro_f1,
    "ece": ece,
    "svm": svm,
    "logistic": logistic,
    "knn": Knn,
    "kmeans": kmeans,
    "silhouette": Silhouette,
    "alignment": alignment,
    "uniformity": Uniformity,
    "anisotropy": anisotropy,
    "retrieval": Retrieval,
}


def measure(names: Iterable[str], inputs: Inputs) -> list[Score]:
    """The scores of the named measures, in their order. Those that compare all pairs of texts share one pass."""
    chosen = {name: METRICS[name] for name in names}
    comparing = {name: kind(inputs) for name, kind in chosen.items() if isinstance(kind, type)}
    if comparing:
        pairs.look_at_all(list(comparing.values()), inputs)
    made = {name: how(inputs) for name, how in chosen.items() if not isinstance(how, type)}
    made |= {name: looked.scores() for name, looked in comparing.items()}
    return [score for name in chosen for score in made[name]]
