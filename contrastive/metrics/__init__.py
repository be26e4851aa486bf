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
from contrastive.metrics.types import Inputs, NotMeasurable, Score
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


def measure(names: Iterable[str], inputs: Inputs, left_out: dict[str, str] | None = None) -> list[Score]:
    """The scores of the named measures, in their order. Those that compare all pairs of texts share one pass.

    A measure that these texts cannot have raises; or, with `left_out`, leaves there why, and the others go on.
    """
    chosen = {name: METRICS[name] for name in names}
    comparing: dict[str, pairs.Measure] = {}
    made: dict[str, list[Score]] = {}
    for name, how in chosen.items():
        try:
            if isinstance(how, type):
                pairs.check(inputs)
                comparing[name] = how(inputs)
            else:
                made[name] = how(inputs)
        except NotMeasurable as error:
            if left_out is None:
                raise
            left_out[name] = str(error)
    if comparing:
        pairs.look_at_all(list(comparing.values()), inputs)
    made |= {name: looked.scores() for name, looked in comparing.items()}
    return [score for name in chosen for score in made.get(name, ())]
