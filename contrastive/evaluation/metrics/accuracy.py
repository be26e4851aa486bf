"""Accuracy of the classification head."""

from contrastive.config.facts import MetricFacts, ScoreFacts
from contrastive.evaluation.metrics.types import Inputs, Score, proportion

ACCURACY_FACTS = MetricFacts(scores=(ScoreFacts("accuracy", counted=True, guessed=True),))


def accuracy(inputs: Inputs) -> list[Score]:
    """Share of texts that the head classifies correctly; no score for a cell without a head."""
    return [] if inputs.predictions is None else [proportion("accuracy", inputs.predictions == inputs.labels)]
