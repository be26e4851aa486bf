"""Probe with few labels: logistic regression on ten texts of each class."""

from contrastive.config.facts import MetricFacts, ScoreFacts
from contrastive.evaluation.metrics.linear import cross_validated
from contrastive.evaluation.metrics.types import Inputs, Score, proportion

FEW_LABELS_FACTS = MetricFacts(
    scores=(ScoreFacts("few_labels_accuracy", counted=True, guessed=True),), of_classes=True, folded=True
)
LABELS = 10  # of each class


def few_labels(inputs: Inputs) -> list[Score]:
    """Accuracy as of `logistic`, but classifiers (C = 1) are trained on ten texts of each class of the other folds."""
    return [proportion("few_labels_accuracy", cross_validated(inputs, "logistic", most=LABELS))]
