"""Linear separability: accuracy of a linear SVM in cross-validation."""

from contrastive.config.facts import MetricFacts
from contrastive.evaluation.metrics.linear import cross_validated
from contrastive.evaluation.metrics.types import Inputs, Score, proportion

FACTS = MetricFacts(scores=("svm_accuracy",), of_classes=True, folded=True)


def svm(inputs: Inputs) -> list[Score]:
    """Share of texts classified right by an SVM trained on the other folds; the scaler is fitted inside the fold."""
    return [proportion("svm_accuracy", cross_validated(inputs, "hinge"))]
