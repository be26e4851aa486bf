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
FIRST = 10  # documents of a search that are looked at
UNDEFINED = "undefined: constant, or one pair"


def score(transfer: Transfer, vectors: Mapping[str, Any]) -> list[Score]:
    """Compute the scores that `transfer.scores()` names, in that order."""
    for name in ("train", "train.other", "test", "test.other"):
        if name in vectors:
            check_finite(vectors[name], f"embeddings of {name}", f"transfer.{transfer.name}: ")
    if transfer.main_metric() == "ndcg":
        return _search(transfer, vectors)
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


def _classify(transfer: Transfer, vectors: Mapping[str, Any]) -> list[Score]:
    """Score the predictions on test texts of a logistic regression fitted on the training texts.

    C is chosen by mean accuracy over inner stratified folds of the training texts; ties go to the smallest C. The
    number of folds is the size of the smallest class, at most 5; if there are fewer, the score's unit says so.
    """
    from sklearn.metrics import f1_score, matthews_corrcoef

    train, test = (_features(vectors, side) for side in ("train", "test"))
    class_labels, classes = np.unique(vectors["train.labels"], return_inverse=True)
    if len(class_labels) < 2:
        raise UserError(f"transfer.{transfer.name}: all {len(classes)} training texts are of one class: give it more "
                        "texts, or another label")  # fmt: skip
    strength, unit = _strength(train, classes)
    all_rows = np.ones((1, len(train)), bool)
    fitted = linear.fit_classifiers(train, classes, all_rows, np.array([strength]), loss="logistic", scaled=False)
    guesses, labels = class_labels[fitted.predict(test, 0)], vectors["test.labels"]
    scores = []
    for name in transfer.scores():
        metric = name.rpartition(".")[2]
        if metric == "accuracy":
            scores.append(replace(proportion(name, guesses == labels), unit=unit))
        elif metric == "f1":  # of the class named 1, else of the second
            names = [str(label) for label in vectors["test.classes"]]
            positive = names.index("1") if "1" in names else 1
            value = f1_score(labels == positive, guesses == positive, zero_division=0)
            scores.append(Score(name, float(value), True, len(labels), unit))
        else:
            constant = len(np.unique([labels, guesses])) == 1
            value = 0.0 if constant else matthews_corrcoef(labels, guesses)
            scores.append(Score(name, float(value), True, len(labels), unit))
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


def _correlate(transfer: Transfer, vectors: Mapping[str, Any]) -> list[Score]:
    """Correlate the cosines of pairs with their similarity scores: Spearman (ties share their mean rank) or Pearson.

    Constant cosines (collapsed embeddings) or scores have no correlation: it counts as 0, and the unit notes it.
    """
    from scipy import stats

    cosines, scores = _cosines(vectors["test"], vectors["test.other"]), vectors["test.scores"]
    defined = len(scores) > 1 and np.ptp(cosines) > 10.0**-DIGITS and np.ptp(scores) > 0
    correlations = []
    for name in transfer.scores():
        measure = stats.spearmanr if name.endswith("spearman_all") else stats.pearsonr
        value = float(measure(cosines, scores).statistic) if defined else 0.0
        correlations.append(Score(name, value, True, len(scores), "" if defined else UNDEFINED))
    return correlations


def _search(transfer: Transfer, vectors: Mapping[str, Any]) -> list[Score]:
    """Let each query search all documents by cosine, and average nDCG, reciprocal rank and recall of the first ten.

    Equal texts are one query, or one document. The gain of a document is its score, as in trec_eval; those with a score
    above 0 are to be found. Among documents of one cosine those with the least score come first, so that collapsed
    embeddings find nothing by luck.
    """
    queries, query_of = np.unique(vectors["test.ids"], return_index=True, return_inverse=True)[1:]
    documents, document_of = np.unique(vectors["test.other.ids"], return_index=True, return_inverse=True)[1:]
    texts, others = _units(vectors["test"][queries]), _units(vectors["test.other"][documents])
    lines = np.split(np.argsort(query_of, kind="stable"), np.cumsum(np.bincount(query_of))[:-1])
    found = []
    for text, of_query in zip(texts, lines, strict=True):
        gain = np.zeros(len(documents))
        np.maximum.at(gain, document_of[of_query], vectors["test.scores"][of_query])
        if not gain.any():
            continue
        first = np.lexsort((gain, -(others @ text).round(DIGITS)))[:FIRST]
        best, right = np.sort(gain)[::-1][:FIRST], gain[first] > 0
        reciprocal = 1 / (1 + right.argmax()) if right.any() else 0.0
        found.append((discounted(gain[first]) / discounted(best), reciprocal, right.sum() / (gain > 0).sum()))
    errors = np.std(found, 0) / max(1, len(found) - 1) ** 0.5
    return [
        Score(name, float(value), True, len(found), "", float(error))
        for name, value, error in zip(transfer.scores(), np.mean(found, 0), errors, strict=True)
    ]


def discounted(gains: Float[np.ndarray, " k"]) -> float:
    """Sum gains, each divided by log₂ of one more than its rank."""
    return float((np.maximum(gains, 0) / np.log2(np.arange(2, len(gains) + 2))).sum())


def _cosines(texts: Float[np.ndarray, "n d"], others: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
    """Return the cosine of each pair; 0 for vectors of zeros. Rounded, so that pairs of equal texts tie."""
    return (_units(texts) * _units(others)).sum(1).round(DIGITS)


def _units(rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    size = np.linalg.norm(exact := rows.astype(np.float64), axis=1, keepdims=True)
    return np.divide(exact, size, out=np.zeros_like(exact), where=size > 0)
