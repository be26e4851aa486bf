"""Linear separability: cross-validated accuracy of a linear SVM on the embeddings."""

from contrastive.config.facts import MetricFacts, ScoreFacts
from contrastive.evaluation.metrics.linear import cross_validated
from contrastive.evaluation.metrics.types import Inputs, Score, proportion

SVM_FACTS = MetricFacts(scores=(ScoreFacts("svm_accuracy", counted=True, guessed=True),), of_classes=True, folded=True)


def svm(inputs: Inputs) -> list[Score]:
    """Accuracy of linear SVMs (C = 1) that are trained on the other folds, standardised on these too."""
    return [proportion("svm_accuracy", cross_validated(inputs, "hinge"))]
