"""Scores of transfer data from vectors alone: SentEval's classification, and how pairs go along with scores.

Conneau and Kiela, "SentEval", 2018. Given are vectors of texts, `train` and `test`, of the other texts of pairs,
`train.other` and `test.other`, and what `TransferTexts.truth` tells of them: `test.labels`, `test.scores` …
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float, Integer

from contrastive.config.evaluation import Transfer
from contrastive.errors import UserError
from contrastive.evaluation.metrics import linear
from contrastive.evaluation.metrics.types import Score, proportion

FOLDS = 5
STRENGTHS = tuple(2.0**power for power in range(-2, 4))  # C of the logistic regression; small ones bind the weights
WITHOUT_CHOICE = 1.0  # where a class has one example only, which cannot be held out
DIGITS = 11  # of a cosine: beyond them is what float32 vectors round
UNDEFINED = "undefined: constant, or one pair"


def score(transfer: Transfer, vectors: Mapping[str, Any]) -> list[Score]:
    """The scores that `transfer.scores()` names, in that order."""
    _check(transfer, vectors)
    return _labelled(transfer, vectors) if transfer.score is None else _scored(transfer, vectors)


def mean(scores: Iterable[Score]) -> Score:
    """The average over tasks of what each is known for, the first of its scores, as tables of GLUE have it."""
    by_task: dict[str, Score] = {}
    for task_score in scores:
        by_task.setdefault(task_score.name.split(".")[1], task_score)
    values, errors = (
        [task_score.value for task_score in by_task.values()],
        [task_score.standard_error for task_score in by_task.values()],
    )
    assert values, "no task"
    error = None if None in errors else sum(e**2 for e in errors if e is not None) ** 0.5 / len(errors)
    count = sum(task_score.count for task_score in by_task.values())
    return Score("transfer.mean", float(np.mean(values)), True, count, f"mean of {len(values)} tasks", error)


def _check(transfer: Transfer, vectors: Mapping[str, Any]) -> None:
    for side in ("train", "test") if transfer.score is None else ("test",):
        for name in (side,) if transfer.other is None else (side, f"{side}.other"):
            array = vectors[name]
            if bad := int((~np.isfinite(array)).any(1).sum()):
                raise UserError(f"transfer.{transfer.name}: {bad} of {len(array)} embeddings of {name} hold NaN or "
                                "infinity: the training diverged")  # fmt: skip
    if transfer.score is None and len(np.unique(vectors["train.labels"])) < 2:
        raise UserError(f"transfer.{transfer.name}: all {len(vectors['train.labels'])} training texts are of one class,"
                        " which nothing can be separated from: give it more texts, or another label")  # fmt: skip


def _labelled(transfer: Transfer, vectors: Mapping[str, Any]) -> list[Score]:
    """What a logistic regression on the training texts says of the test texts.

    C is chosen by the mean accuracy over inner stratified folds of the training texts, of equally good ones the
    smallest. There are as many folds as the smallest class has texts, at most 5; the unit tells where they are fewer.
    """
    train, test = (_features(vectors, side) for side in ("train", "test"))
    class_labels, classes = np.unique(vectors["train.labels"], return_inverse=True)
    strength, unit = _strength(train, classes)
    everything = np.ones((1, len(train)), bool)
    fitted = linear.fit_classifiers(train, classes, everything, np.array([strength]), loss="logistic", scaled=False)
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
    """Of a text its vector u, of a pair [|u − v|, u·v] by dimension, in which neither text is the first."""
    text, other = vectors[side], vectors.get(f"{side}.other")
    return text if other is None else np.concatenate([np.abs(text - other), text * other], 1)


def _strength(train: Float[np.ndarray, "n k"], classes: Integer[np.ndarray, " n"]) -> tuple[float, str]:
    """C, and what is to be said of its choice."""
    from sklearn.model_selection import StratifiedKFold

    folds = min(FOLDS, int(np.bincount(classes).min()))
    if folds < 2:
        return WITHOUT_CHOICE, f"C = {WITHOUT_CHOICE:g}: a class has one training text"
    splitter = StratifiedKFold(folds, shuffle=True, random_state=0)
    held_out = np.zeros((folds, len(train)), bool)
    for number, (_, rows) in enumerate(splitter.split(train, classes)):
        held_out[number, rows] = True
    members, strengths = np.tile(~held_out, (len(STRENGTHS), 1)), np.repeat(STRENGTHS, folds)
    fitted = linear.fit_classifiers(train, classes, members, strengths, loss="logistic", scaled=False)
    right = [
        np.mean(fitted.predict(train[~inside], problem) == classes[~inside]) for problem, inside in enumerate(members)
    ]
    best = np.reshape(right, (len(STRENGTHS), folds)).mean(1).round(12).argmax()  # rounded: sums of equal ones tie
    return STRENGTHS[best], "" if folds == FOLDS else f"{folds} inner folds"


def _positive(vectors: Mapping[str, Any]) -> int:
    """The number of the class that F1 is about: the one named 1, else the second in order."""
    classes = [str(name) for name in vectors["test.classes"]]
    return classes.index("1") if "1" in classes else 1


def f1(labels: Integer[np.ndarray, " n"], guesses: Integer[np.ndarray, " n"], positive: int) -> float:
    """2·hits / (guessed + there); 0 where the class is neither guessed nor there."""
    hits = int(((labels == positive) & (guesses == positive)).sum())
    both = int((labels == positive).sum() + (guesses == positive).sum())
    return 2 * hits / both if both else 0.0


def matthews(labels: Integer[np.ndarray, " n"], guesses: Integer[np.ndarray, " n"]) -> float:
    """The correlation of labels and guesses as indicators of classes (Gorodkin's R_K); 0 where one is constant."""
    classes = np.unique([labels, guesses])
    there, guessed = ((classes == side[:, None]).astype(np.float64) for side in (labels, guesses))
    there, guessed = there - there.mean(0), guessed - guessed.mean(0)
    size = ((there**2).sum() * (guessed**2).sum()) ** 0.5
    return float((there * guessed).sum() / size) if len(np.unique(labels)) > 1 < len(np.unique(guesses)) else 0.0


def _scored(transfer: Transfer, vectors: Mapping[str, Any]) -> list[Score]:
    """How the cosines of pairs go along with their scores: by rank (Spearman, ties share their mean rank), or linearly.

    `all` is over all pairs at once; `mean` is the plain mean over subsets, each the same, however many pairs it has.
    Where cosines or scores do not vary (collapsed embeddings) there is no correlation: it counts as 0, which the unit
    tells.
    """
    cosines, scores = _cosines(vectors["test"], vectors["test.other"]), vectors["test.scores"]
    whole = np.ones(len(scores), bool)
    subsets = [vectors["test.subsets"] == subset for subset in np.unique(vectors.get("test.subsets", []))]
    correlations = []
    for name in transfer.scores():
        kind, _, over = name.rpartition(".")[2].partition("_")
        parts = [whole] if over == "all" else subsets
        values = [_correlation(kind, cosines[part], scores[part]) for part in parts]
        undefined = values.count(None)
        unit = UNDEFINED if undefined else ""
        if undefined and over == "mean":
            unit += f" in {undefined} of {len(parts)} subsets"
        correlations.append(Score(name, float(np.mean([value or 0.0 for value in values])), True, len(scores), unit))
    return correlations


def _cosines(texts: Float[np.ndarray, "n d"], others: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
    """Of each pair; 0 for a vector of zeros. Pairs of equal texts tie, whatever the rounding."""
    units = []
    for side in (texts.astype(np.float64), others.astype(np.float64)):
        size = np.linalg.norm(side, axis=1, keepdims=True)
        units.append(np.divide(side, size, out=np.zeros_like(side), where=size > 0))
    return (units[0] * units[1]).sum(1).round(DIGITS)


def _correlation(kind: str, cosines: Float[np.ndarray, " n"], scores: Float[np.ndarray, " n"]) -> float | None:
    """None where one of them is constant."""
    from scipy import stats

    if len(scores) < 2 or np.ptp(cosines) <= 10.0**-DIGITS or np.ptp(scores) == 0:
        return None
    measure = stats.spearmanr if kind == "spearman" else stats.pearsonr
    return float(measure(cosines, scores).statistic)
