"""Many linear classifiers on the same vectors at once: all folds and strengths share each pass over the data.

The vectors are copied once, centred and scaled in float64, so that neither their size nor a common mean costs digits;
the scaler of each problem's own training rows is folded into its weights. newton.py finds the optimum.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Integer

from contrastive.evaluation import parallel
from contrastive.evaluation.metrics.newton import CURVES, ROWS, Problems, minimise
from contrastive.evaluation.metrics.types import Inputs

EPSILON = np.finfo(np.float64).eps
Loss = Literal["hinge", "logistic"]


def cross_validated(inputs: Inputs, loss: Loss) -> Bool[np.ndarray, " n"]:
    """Which texts a classifier with C = 1 gets right that was trained on the other folds, its scaler too."""
    classes, parts = np.unique(inputs.labels, return_inverse=True)[1], [test for _, test in folds(inputs)]
    members = np.ones((len(parts), len(classes)), bool)
    for fold, test in enumerate(parts):
        members[fold, test] = False
    classifiers = fit_classifiers(inputs.embeddings, classes, members, np.ones(len(parts)), loss=loss, scaled=True)
    right = np.zeros(len(classes), bool)
    for fold, test in enumerate(parts):
        right[test] = classifiers.predict(inputs.embeddings[test], fold) == classes[test]
    return right


@dataclass(frozen=True)
class Classifiers:
    """Fitted linear classifiers, numbered as the problems were."""

    mean: Float[np.ndarray, " d"]
    unit: Float[np.ndarray, " d"]
    weights: Float[np.ndarray, "r k d"]  # of vectors around `mean`, in units of `unit`
    intercepts: Float[np.ndarray, "r k"]

    def decide(self, vectors: Float[np.ndarray, "m d"], problem: int) -> Float[np.ndarray, "m ..."]:
        """Scores of each class; of two classes one score, positive for the second."""
        weights = self.weights[problem].T / self.unit[:, None]
        scores = np.empty((len(vectors), weights.shape[1]))
        for rows in parallel.blocks(len(vectors), ROWS):
            scores[rows] = (vectors[rows] - self.mean) @ weights + self.intercepts[problem]
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, vectors: Float[np.ndarray, "m d"], problem: int) -> Integer[np.ndarray, " m"]:
        scores = self.decide(vectors, problem)
        return scores.argmax(1) if scores.ndim == 2 else (scores > 0).astype(np.int64)


def fit_classifiers(
    vectors: Float[np.ndarray, "n d"],
    classes: Integer[np.ndarray, " n"],
    members: Bool[np.ndarray, "r n"],
    strengths: Float[np.ndarray, " r"],
    *,
    loss: Loss,
    scaled: bool,
) -> Classifiers:
    """Classifiers of classes 0 … k − 1; problem p trains on the rows `members[p]` with C = `strengths[p]`.

    hinge: squared hinge, one class against the rest, the intercept penalised like a weight (LinearSVC). logistic:
    softmax, of two classes the plain logistic, the intercept free (LogisticRegression). Both add |w|² / 2 to C
    times the sum of losses. `scaled` standardises by mean and deviation of the problem's own rows.
    """
    count = int(classes.max()) + 1
    assert count > 1, "all rows are of one class"
    rows, mean, unit = centred(vectors, scaled)
    one_hot = (classes[:, None] == np.arange(count)).astype(np.int8)
    together = loss == "logistic" and count > 2  # the classes of a problem share their losses
    signs = 2 * one_hot[:, 1:] - 1 if count == 2 else 2 * one_hot - 1
    machines = 1 if together else signs.shape[1]
    wanted = np.tile(one_hot[:, None] if together else signs[..., None], (1, len(members), 1))
    scale, shift = scalers(rows, mean, unit, members, scaled)
    problems = Problems(
        rows,
        wanted,
        members.repeat(machines, 0).T,
        strengths.repeat(machines),
        scale.repeat(machines, 0),
        shift.repeat(machines, 0),
        float(loss == "hinge"),
        CURVES["softmax" if together else loss],
    )
    weights = minimise(problems).reshape(len(members), -1, rows.shape[1] + 1)
    return Classifiers(mean, unit, weights[..., :-1], weights[..., -1])


def centred(
    vectors: Float[np.ndarray, "n d"], columns: bool
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    """float32 rows around their mean, in units of each column's deviation, or of that of all; mean and units."""
    mean, blocks = vectors.mean(0, dtype=np.float64), parallel.blocks(len(vectors), ROWS)
    square = sum(parallel.each(lambda rows: ((vectors[rows] - mean) ** 2).sum(0), blocks)) / len(vectors)
    constant = square <= len(vectors) * EPSILON * square + (len(vectors) * mean * EPSILON) ** 2
    square = np.where(constant, 0, square)
    unit = np.sqrt(square if columns else np.full_like(square, square.mean()))
    unit[unit == 0] = 1
    made = np.empty(vectors.shape, np.float32)

    def fill(rows: slice) -> None:
        made[rows] = np.where(constant, 0, (vectors[rows] - mean) / unit)

    parallel.each(fill, blocks)
    return made, mean, unit


def scalers(rows: Any, mean: Any, unit: Any, members: Any, scaled: bool) -> tuple[Any, Any]:
    """What makes of a weight v of such rows, and of their intercept c, what is penalised: scale·v and c + shift·v."""
    if not scaled:
        return np.tile(1 / unit, (len(members), 1)), np.tile(-mean / unit, (len(members), 1))

    def moments(part: slice) -> Any:
        inside, values = members[:, part].astype(np.float64), rows[part].astype(np.float64)
        return np.stack([inside @ values, inside @ values**2])

    own_mean, square = sum(parallel.each(moments, parallel.blocks(len(rows), ROWS))) / members.sum(1)[:, None]
    variance = square - own_mean**2
    constant = variance <= 1e-10 * square  # to float32, among these rows: its weight is 0, whatever the scale
    return np.sqrt(np.where(constant, 1, variance)), own_mean


def folds(inputs: Inputs) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    from sklearn.model_selection import StratifiedKFold  # 1.5 s, which no training waits for

    inputs.check_folds()
    splitter = StratifiedKFold(inputs.folds, shuffle=True, random_state=0)
    yield from splitter.split(inputs.embeddings, inputs.labels)
