"""Accuracy of the head."""

from contrastive.evaluation.metrics.types import Inputs, Score, proportion


def accuracy(inputs: Inputs) -> list[Score]:
    """Share of texts whose class the head predicts; nothing for a cell without a head."""
    return [] if inputs.predictions is None else [proportion("accuracy", inputs.predictions == inputs.labels)]
