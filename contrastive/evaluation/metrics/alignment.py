"""Alignment: how near the two texts of a positive pair lie (Wang & Isola 2020)."""

import numpy as np
from jaxtyping import Float

from contrastive.config.facts import MetricFacts
from contrastive.evaluation.metrics.types import Inputs, NotMeasurable, Score, average

FACTS = MetricFacts(scores=("alignment_class", "alignment_dropout"), drops_twice=True)


def alignment(inputs: Inputs) -> list[Score]:
    """Mean |x − y|² of normalised positives: texts of one class; and, where it was kept, a text through two dropouts.

    The pairs of a class of n need no pass: their |x − y|² sum up to n·Σ|x − mean|². Each pair counts the same, so that
    large classes weigh more; a class of one text has none.
    """
    vectors = normalised(inputs.embeddings)
    _, own, sizes = np.unique(inputs.labels, return_inverse=True, return_counts=True)
    pairs = sizes * (sizes - 1) / 2
    if not pairs.any():
        raise NotMeasurable(
            f"each of the {len(own)} texts is of a class of its own: there are no positives; give the split more texts"
        )
    apart = 0.0
    for number, size in enumerate(sizes):
        members = vectors[own == number]
        apart += size * np.square(members - members.mean(0)).sum()
    scores = [Score("alignment_class", float(apart / pairs.sum()), False, int(sizes[sizes > 1].sum()))]
    if inputs.twice is not None:
        first, second = normalised(inputs.twice[:, 0]), normalised(inputs.twice[:, 1])
        apart_of_each = np.square(first - second).sum(1).astype(np.float32)
        scores.append(average("alignment_dropout", apart_of_each, False))
    return scores


def normalised(vectors: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """Rows of length 1, in float64; a row of zeros stays one."""
    exact = vectors.astype(np.float64)
    lengths = np.sqrt(np.einsum("nd,nd->n", exact, exact))
    return exact / np.where(lengths > 0, lengths, 1)[:, None]
