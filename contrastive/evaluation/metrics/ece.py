"""Expected calibration error (ECE) of the classification head (Guo et al. 2017)."""

import numpy as np
from scipy.special import softmax

from contrastive.config.facts import MetricFacts, ScoreFacts
from contrastive.evaluation.metrics.types import Inputs, Score

BINS = 15

ECE_FACTS = MetricFacts(scores=(ScoreFacts("ece"),))


def ece(inputs: Inputs) -> list[Score]:
    """Mean gap between confidence and accuracy over 15 bins of equal width, weighted by the number of texts in a bin.

    A confidence on a border belongs to the lower bin. A cell without a head has no such score.
    """
    if inputs.logits is None:
        return []
    confidence = softmax(inputs.logits.astype(np.float64), axis=1).max(1)
    bins = np.ceil(confidence * BINS).astype(np.int64)
    gaps = np.bincount(bins, (inputs.predictions == inputs.labels) - confidence)
    return [Score("ece", float(np.abs(gaps).sum() / len(bins)), False, len(bins))]
