"""Scores of transfer data from stored vectors: SentEval classification, and correlation with similarity scores.

Conneau and Kiela, "SentEval", 2018. Input: vectors of texts (`train`, `test`), of the second texts of pairs
(`train.other`, `test.other`), and the arrays of `TransferTexts.truth`: `test.labels`, `test.scores` …
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float, Integer

from contrastive.config.evaluation import Transfer
from contrastive.errors import UserError
from contrastive.evaluation.metrics import linear
from contrastive.evaluation.metrics.types import Score, check_finite, proportion

FOLDS = 5
STRENGTHS = tuple(2.0**power for power in range(-2, 4))  # C of the logistic regression; small values regularise more
DEFAULT_STRENGTH = 1.0  # C if a class has a single training text, so that none can be held out
DIGITS = 11  # decimals of a cosine that float32 vectors determine
UNDEFINED = "undefined: constant, or one pair"


def score(transfer: Transfer, vectors: Mapping[str, Any]) -> list[Score]:
    """Compute the scores that `transfer.scores()` names, in that order."""
    _check(transfer, vectors)
    return _classify(transfer, vectors) if transfer.score is None else _correlate(transfer, vectors)


def mean(scores: Iterable[Score]) -> Score:
    """Average the first score of each task, as GLUE does."""
    by_task: dict[str, Score] = {}
    for task_score in scores:
        by_task.setdefault(task_score.name.split(".")[1], task_score)
    values = [task_score.value for task_score in by_task.values()]
    errors = [task_score.standard_error for task_score in by_task.values()]
    assert values, "no task"
    error = None if None in errors else sum(e**2 for e in errors if e is not None) ** 0.5 / len(errors)
    count = sum(task_score.count for task_score in by_task.values())
    return Score("transfer.mean", float(np.mean(values)), True, count, f"mean of {len(values)} tasks", error)


def _check(transfer: Transfer, vectors: Mapping[str, Any]) -> None:
    for side in ("train", "test") if transfer.score is None else ("test",):
        for name in (side,) if transfer.other is None else (side, f"{side}.other"):
            check_finite(vectors[name], f"embeddings of {name}", f"transfer.{transfer.name}: ")
    if transfer.score is None and len(np.unique(vectors["train.labels"])) < 2:
        raise UserError(f"transfer.{transfer.name}: all {len(vectors['train.labels'])} training texts are of one class:"
                        " give it more texts, or another label")  # fmt: skip


def _classify(transfer: Transfer, vectors: Mapping[str, Any]) -> list[Score]:
    """Score the predictions on test texts of a logistic regression fitted on the training texts.

    C is chosen by mean accuracy over inner stratified folds of the training texts; ties go to the smallest C. The
    number of folds is the size of the smallest class, at most 5; if there are fewer, the score's unit says so.
    """
    train, test = (_features(vectors, side) for side in ("train", "test"))
    class_labels, classes = np.unique(vectors["train.labels"], return_inverse=True)
    strength, unit = _strength(train, classes)
    all_rows = np.ones((1, len(train)), bool)
    fitted = linear.fit_classifiers(train, classes, all_rows, np.array([strength]), loss="logistic", scaled=False)
    guesses, labels = class_labels[fitted.predict(test, 0)], vectors["test.labels"]
    scores = []
    for name in transfer.scores():
        metric = name.rpartition(".")[2]
        if metric == "accuracy":
            scores.append(replace(proportion(name, guesses == labels), unit=unit))
        else:
            value = matthews(labels, guesses) if metric == "matthews" else f1(labels, guesses, _positive(vectors))
            scores.append(Score(name, value, True, len(labels), unit))
    return scores


def _features(vectors: Mapping[str, Any], side: str) -> Float[np.ndarray, "n k"]:
    """Return the vector u of a text; for a pair [|u − v|, u·v] per dimension, which ignores the order of the texts."""
    text, other = vectors[side], vectors.get(f"{side}.other")
    return text if other is None else np.concatenate([np.abs(text - other), text * other], 1)


def _strength(train: Float[np.ndarray, "n k"], classes: Integer[np.ndarray, " n"]) -> tuple[float, str]:
    """Choose C; return it with a note on the choice for the unit."""
    from sklearn.model_selection import StratifiedKFold

    folds = min(FOLDS, int(np.bincount(classes).min()))
    if folds < 2:
        return DEFAULT_STRENGTH, f"C = {DEFAULT_STRENGTH:g}: a class has one training text"
    splitter = StratifiedKFold(folds, shuffle=True, random_state=0)
    validation = np.zeros((folds, len(train)), bool)
    for number, (_, rows) in enumerate(splitter.split(train, classes)):
        validation[number, rows] = True
    members, strengths = np.tile(~validation, (len(STRENGTHS), 1)), np.repeat(STRENGTHS, folds)
    fitted = linear.fit_classifiers(train, classes, members, strengths, loss="logistic", scaled=False)
    right = [
        np.mean(fitted.predict(train[~member_rows], problem) == classes[~member_rows])
        for problem, member_rows in enumerate(members)
    ]
    best = np.reshape(right, (len(STRENGTHS), folds)).mean(1).round(12).argmax()  # rounded: equal accuracies tie
    return STRENGTHS[best], "" if folds == FOLDS else f"{folds} inner folds"


def _positive(vectors: Mapping[str, Any]) -> int:
    """Return the index of the positive class for F1: the class named 1, else the second."""
    classes = [str(name) for name in vectors["test.classes"]]
    return classes.index("1") if "1" in classes else 1


def f1(labels: Integer[np.ndarray, " n"], guesses: Integer[np.ndarray, " n"], positive: int) -> float:
    """2·hits / (predicted + actual positives); 0 without either."""
    hits = int(((labels == positive) & (guesses == positive)).sum())
    total = int((labels == positive).sum() + (guesses == positive).sum())
    return 2 * hits / total if total else 0.0


def matthews(labels: Integer[np.ndarray, " n"], guesses: Integer[np.ndarray, " n"]) -> float:
    """Matthews correlation for any number of classes (Gorodkin's R_K); 0 if labels or guesses are constant."""
    classes = np.unique([labels, guesses])
    actual, predicted = ((classes == side[:, None]).astype(np.float64) for side in (labels, guesses))
    actual, predicted = actual - actual.mean(0), predicted - predicted.mean(0)
    size = ((actual**2).sum() * (predicted**2).sum()) ** 0.5
    return float((actual * predicted).sum() / size) if len(np.unique(labels)) > 1 < len(np.unique(guesses)) else 0.0


def _correlate(transfer: Transfer, vectors: Mapping[str, Any]) -> list[Score]:
    """Correlate the cosines of pairs with their similarity scores: Spearman (ties share their mean rank) or Pearson.

    `all`: over all pairs; `mean`: unweighted mean over subsets. Constant cosines (collapsed embeddings) or scores have
    no correlation: it counts as 0, and the unit notes it.
    """
    cosines, scores = _cosines(vectors["test"], vectors["test.other"]), vectors["test.scores"]
    all_pairs = np.ones(len(scores), bool)
    subsets = [vectors["test.subsets"] == subset for subset in np.unique(vectors.get("test.subsets", []))]
    correlations = []
    for name in transfer.scores():
        kind, _, over = name.rpartition(".")[2].partition("_")
        parts = [all_pairs] if over == "all" else subsets
        values = [_correlation(kind, cosines[part], scores[part]) for part in parts]
        undefined = values.count(None)
        unit = UNDEFINED if undefined else ""
        if undefined and over == "mean":
            unit += f" in {undefined} of {len(parts)} subsets"
        correlations.append(Score(name, float(np.mean([value or 0.0 for value in values])), True, len(scores), unit))
    return correlations


def _cosines(texts: Float[np.ndarray, "n d"], others: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
    """Return the cosine of each pair; 0 for vectors of zeros. Rounded, so that pairs of equal texts tie."""
    units = []
    for side in (texts.astype(np.float64), others.astype(np.float64)):
        size = np.linalg.norm(side, axis=1, keepdims=True)
        units.append(np.divide(side, size, out=np.zeros_like(side), where=size > 0))
    return (units[0] * units[1]).sum(1).round(DIGITS)


def _correlation(kind: str, cosines: Float[np.ndarray, " n"], scores: Float[np.ndarray, " n"]) -> float | None:
    """Return Spearman's or Pearson's correlation; None if cosines or scores are constant."""
    from scipy import stats

    if len(scores) < 2 or np.ptp(cosines) <= 10.0**-DIGITS or np.ptp(scores) == 0:
        return None
    measure = stats.spearmanr if kind == "spearman" else stats.pearsonr
    return float(measure(cosines, scores).statistic)
