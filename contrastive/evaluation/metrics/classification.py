"""Metrics of classifiers: of the trained head, and of linear ones that are trained on the embeddings."""

import numpy as np
from scipy.special import softmax

from contrastive.config.facts import MetricFacts, ScoreFacts
from contrastive.evaluation.metrics.linear import cross_validated
from contrastive.evaluation.metrics.types import Inputs, Score, proportion

ACCURACY_FACTS = MetricFacts(scores=(ScoreFacts("accuracy", counted=True, guessed=True),))


def accuracy(inputs: Inputs) -> list[Score]:
    """Accuracy of the classification head. Share of texts that the head classifies correctly; no score for a cell
    without a head."""
    return [] if inputs.predictions is None else [proportion("accuracy", inputs.predictions == inputs.labels)]


MACRO_F1_FACTS = MetricFacts(scores=(ScoreFacts("macro_f1", counted=True),))


def macro_f1(inputs: Inputs) -> list[Score]:
    """Macro-averaged F1 of the classification head: every class has the same weight. Mean over classes of
    2·precision·recall / (precision + recall); 0 for classes never predicted."""
    if inputs.predictions is None:
        return []
    from sklearn.metrics import f1_score  # takes a second: import only when needed

    value = f1_score(inputs.labels, inputs.predictions, average="macro", zero_division=0)
    return [Score("macro_f1", float(value), True, len(inputs.labels))]


BINS = 15

ECE_FACTS = MetricFacts(scores=(ScoreFacts("ece"),))


def ece(inputs: Inputs) -> list[Score]:
    """Expected calibration error (ECE) of the classification head (Guo et al. 2017).

    Mean gap between confidence and accuracy over 15 bins of equal width, weighted by the number of texts in a bin. A
    confidence on a border belongs to the lower bin. A cell without a head has no such score.
    """
    if inputs.logits is None:
        return []
    confidence = softmax(inputs.logits.astype(np.float64), axis=1).max(1)
    bins = np.ceil(confidence * BINS).astype(np.int64)
    gaps = np.bincount(bins, (inputs.predictions == inputs.labels) - confidence)
    return [Score("ece", float(np.abs(gaps).sum() / len(bins)), False, len(bins))]


SVM_FACTS = MetricFacts(scores=(ScoreFacts("svm_accuracy", counted=True, guessed=True),), of_classes=True, folded=True)


def svm(inputs: Inputs) -> list[Score]:
    """Linear separability: cross-validated accuracy of a linear SVM on the embeddings. Accuracy of linear SVMs (C = 1)
    that are trained on the other folds, standardised on these too."""
    return [proportion("svm_accuracy", cross_validated(inputs, "hinge"))]


LOGISTIC_FACTS = MetricFacts(
    scores=(ScoreFacts("logistic_accuracy", counted=True, guessed=True),), of_classes=True, folded=True
)
STRENGTHS = (0.001, 0.01, 0.1, 1.0)  # with one C for all, vectors of a lower rank win as they overfit less


def logistic(inputs: Inputs) -> list[Score]:
    """Linear probe: cross-validated accuracy of a logistic regression on the embeddings. Accuracy of logistic
    regressions that are trained on the other folds, standardised on these too."""
    return [proportion("logistic_accuracy", cross_validated(inputs, "logistic", STRENGTHS))]


FEW_LABELS_FACTS = MetricFacts(
    scores=(ScoreFacts("few_labels_accuracy", counted=True, guessed=True),), of_classes=True, folded=True
)
LABELS = 10  # of each class


def few_labels(inputs: Inputs) -> list[Score]:
    """Probe with few labels: logistic regression on ten texts of each class. Accuracy as of `logistic`, but classifiers
    (C = 1) are trained on ten texts of each class of the other folds."""
    return [proportion("few_labels_accuracy", cross_validated(inputs, "logistic", most=LABELS))]
