"""Uniformity of the embeddings on the sphere (Wang & Isola 2020)."""

import numpy as np

from contrastive.config.facts import MetricFacts, ScoreFacts
from contrastive.evaluation.metrics import pairs
from contrastive.evaluation.metrics.types import Inputs, Score

UNIFORMITY_FACTS = MetricFacts(scores=(ScoreFacts("uniformity", low=None, high=0.0),))


def uniformity(inputs: Inputs) -> list[Score]:
    """Log of the mean of exp(−2·|x − y|²) over normalised pairs: 0 if all are equal, near −4 for random directions."""
    pairs.check_pairs(inputs)
    vectors, count = pairs.unit_rows(inputs.embeddings), len(inputs.embeddings)
    potential = sum(pairs.over_blocks(lambda _, apart: float(np.exp(-2 * apart).sum()), vectors))
    mean = (potential - count) / (count * (count - 1))  # without the pairs of a text with itself
    return [Score("uniformity", float(np.log(mean)), False, count)]
