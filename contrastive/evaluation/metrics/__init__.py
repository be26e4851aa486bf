"""Measures of embeddings, predictions and labels. One file and one line each; see CONTRIBUTING.md."""

from collections.abc import Callable, Iterable

from contrastive.evaluation.metrics import pairs
from contrastive.evaluation.metrics.accuracy import accuracy
from contrastive.evaluation.metrics.alignment import alignment
from contrastive.evaluation.metrics.anisotropy import anisotropy
from contrastive.evaluation.metrics.ece import ece
from contrastive.evaluation.metrics.kmeans import kmeans
from contrastive.evaluation.metrics.knn import Knn
from contrastive.evaluation.metrics.logistic import logistic
from contrastive.evaluation.metrics.macro_f1 import macro_f1
from contrastive.evaluation.metrics.retrieval import Retrieval
from contrastive.evaluation.metrics.silhouette import Silhouette
from contrastive.evaluation.metrics.svm import svm
from contrastive.evaluation.metrics.types import Inputs, NotMeasurable, Score
from contrastive.evaluation.metrics.uniformity import Uniformity

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
