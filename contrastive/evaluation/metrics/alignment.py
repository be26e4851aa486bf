"""Alignment: mean distance of positive pairs (Wang & Isola 2020), within classes and between dropout passes."""

import numpy as np
from jaxtyping import Float

from contrastive.config.facts import MetricFacts, ScoreFacts
from contrastive.evaluation.metrics.types import Inputs, NotMeasurable, Score, average

ALIGNMENT_FACTS = MetricFacts(
    scores=(ScoreFacts("alignment_class", high=None), ScoreFacts("alignment_dropout", high=None)),
    needs_dropout_pairs=True,
)


def alignment(inputs: Inputs) -> list[Score]:
    """Mean |x − y|² of normalised positives: texts of the same class and, if stored, two dropout passes of a text.

    No loop over pairs: in a class of n texts |x − y|² sums to n·Σ|x − mean|². Every pair has the same weight, so large
    classes count more; a class of one text has no pair.
    """
    vectors = normalised(inputs.embeddings)
    _, classes, sizes = np.unique(inputs.labels, return_inverse=True, return_counts=True)
    pairs = sizes * (sizes - 1) / 2
    if not pairs.any():
        raise NotMeasurable(
            f"each of the {len(classes)} texts has its own class, so there are no positives: give the split more texts"
        )
    apart = 0.0
    for number, size in enumerate(sizes):
        members = vectors[classes == number]
        apart += size * np.square(members - members.mean(0)).sum()
    scores = [Score("alignment_class", float(apart / pairs.sum()), False, int(sizes[sizes > 1].sum()))]
    if inputs.twice is not None:
        first, second = normalised(inputs.twice[:, 0]), normalised(inputs.twice[:, 1])
        distances = np.square(first - second).sum(1).astype(np.float32)
        scores.append(average("alignment_dropout", distances, False))
    return scores


def normalised(vectors: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """Scale rows to length 1, in float64; rows of zeros stay zero."""
    exact = vectors.astype(np.float64)
    lengths = np.sqrt(np.einsum("nd,nd->n", exact, exact))
    return exact / np.where(lengths > 0, lengths, 1)[:, None]
