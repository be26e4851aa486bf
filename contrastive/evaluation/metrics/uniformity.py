"""Uniformity: how evenly the directions of texts cover the sphere (Wang & Isola 2020)."""

import numpy as np

from contrastive.evaluation.metrics import pairs
from contrastive.evaluation.metrics.types import Inputs, Score


def uniformity(inputs: Inputs) -> list[Score]:
    """log of the mean over pairs of exp(−2·|x − y|²), normalised: 0 where all are one, near −4 in random directions."""
    pairs.check_pairs(inputs)
    vectors, count = pairs.unit_rows(inputs.embeddings), len(inputs.embeddings)
    potential = sum(pairs.over_blocks(lambda _, apart: float(np.exp(-2 * apart).sum()), vectors))
    mean = (potential - count) / (count * (count - 1))  # a text and itself are no pair
    return [Score("uniformity", float(np.log(mean)), False, count)]
