"""Accuracy of the classification head."""

from contrastive.evaluation.metrics.types import Inputs, Score, proportion


def accuracy(inputs: Inputs) -> list[Score]:
    """Share of texts that the head classifies correctly; no score for a cell without a head."""
    return [] if inputs.predictions is None else [proportion("accuracy", inputs.predictions == inputs.labels)]
