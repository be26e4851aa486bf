"""Macro-averaged F1 of the classification head: every class has the same weight."""

from contrastive.config.facts import MetricFacts, ScoreFacts
from contrastive.evaluation.metrics.types import Inputs, Score

MACRO_F1_FACTS = MetricFacts(scores=(ScoreFacts("macro_f1", counted=True),))


def macro_f1(inputs: Inputs) -> list[Score]:
    """Mean over classes of 2·precision·recall / (precision + recall); 0 for classes never predicted."""
    if inputs.predictions is None:
        return []
    from sklearn.metrics import f1_score  # takes a second: import only when needed

    value = f1_score(inputs.labels, inputs.predictions, average="macro", zero_division=0)
    return [Score("macro_f1", float(value), True, len(inputs.labels))]
