"""Linear probe: cross-validated accuracy of a logistic regression on the embeddings."""

from contrastive.config.facts import MetricFacts, ScoreFacts
from contrastive.evaluation.metrics.linear import cross_validated
from contrastive.evaluation.metrics.types import Inputs, Score, proportion

LOGISTIC_FACTS = MetricFacts(
    scores=(ScoreFacts("logistic_accuracy", counted=True, guessed=True),), of_classes=True, folded=True
)
STRENGTHS = (0.001, 0.01, 0.1, 1.0)  # with one C for all, vectors of a lower rank win as they overfit less


def logistic(inputs: Inputs) -> list[Score]:
    """Accuracy of logistic regressions that are trained on the other folds, standardised on these too."""
    return [proportion("logistic_accuracy", cross_validated(inputs, "logistic", STRENGTHS))]
