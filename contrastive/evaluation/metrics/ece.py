"""Calibration of the head: whether it is right as often as it claims to be (Guo et al. 2017)."""

import numpy as np
from scipy.special import softmax

from contrastive.evaluation.metrics.types import Inputs, Score

BINS = 15


def ece(inputs: Inputs) -> list[Score]:
    """Expected calibration error: over 15 bins of equal width, the gap between confidence and accuracy in a bin,
    weighted by its texts. A confidence on a border belongs to the lower bin. Nothing for a cell without a head.
    """
    if inputs.logits is None:
        return []
    confidence = softmax(inputs.logits.astype(np.float64), axis=1).max(1)
    bins = np.ceil(confidence * BINS).astype(np.int64)
    gaps = np.bincount(bins, (inputs.predictions == inputs.labels) - confidence)
    return [Score("ece", float(np.abs(gaps).sum() / len(bins)), False, len(bins))]
