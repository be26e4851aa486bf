"""The linear probe: accuracy of a logistic regression in cross-validation."""

from contrastive.config.facts import MetricFacts
from contrastive.evaluation.metrics.linear import cross_validated
from contrastive.evaluation.metrics.types import Inputs, Score, proportion

FACTS = MetricFacts(scores=("logistic_accuracy",), of_classes=True, folded=True)


def logistic(inputs: Inputs) -> list[Score]:
    """Share of texts classified right by a logistic regression (C = 1) trained on the other folds; the scaler is fitted
    inside the fold."""
    return [proportion("logistic_accuracy", cross_validated(inputs, "logistic"))]
