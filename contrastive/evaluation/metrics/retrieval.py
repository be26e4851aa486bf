"""Retrieval by class with cosine similarity: precision at 1 and MAP@R (Musgrave et al. 2020)."""

from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float, Integer

from contrastive.config.facts import MetricFacts, ScoreFacts
from contrastive.evaluation.metrics import pairs
from contrastive.evaluation.metrics.types import Inputs, NotMeasurable, Score, average, proportion

RETRIEVAL_FACTS = MetricFacts(scores=(ScoreFacts("precision_at_1"), ScoreFacts("map_at_r")), of_classes=True)

EQUAL = 1e-12  # squared distances that differ by less count as ties: float32 vectors are no more exact


def retrieval(inputs: Inputs) -> list[Score]:
    """Precision at 1 and MAP@R; each text queries the R other texts of its class.

    MAP@R sums the precisions at those k ≤ R whose k-th nearest text has the class, and divides by R. Among equally near
    texts other classes rank first, so that collapsed embeddings do not score by luck. A text alone in its class is left
    out of both means, and NaN in `per_example`.
    """
    inputs.check_classes()
    _, classes, sizes = np.unique(inputs.labels, return_inverse=True, return_counts=True)
    queries = sizes[classes] > 1
    if not queries.any():
        raise NotMeasurable(
            f"each of the {len(classes)} texts has its own class, so there is nothing to retrieve: add texts"
        )
    first, precision = query_scores(inputs.embeddings, classes, sizes[classes] - 1)
    scores = proportion("precision_at_1", first[queries] == 1), average("map_at_r", precision[queries], True)
    precision_at_1 = scores[0].per_example if queries.all() else first
    return [replace(scores[0], per_example=precision_at_1), replace(scores[1], per_example=precision)]


def query_scores(
    vectors: Float[np.ndarray, "n d"], classes: Integer[np.ndarray, " n"], others: Integer[np.ndarray, " n"]
) -> Float[np.ndarray, "2 n"]:
    """Return whether the nearest text has the class, and MAP@R, per text; NaN if there are no other texts."""
    results = np.full((2, len(classes)), np.nan, np.float32)

    def rank(rows: slice, apart: Any) -> None:
        ranks = np.round(apart / EQUAL).astype(np.int64) * 2
        ranks |= classes[rows, None] == classes  # lowest bit: same class, which also ranks last among ties
        for text, row in enumerate(ranks, start=rows.start):
            relevant, row[text] = others[text], np.iinfo(np.int64).max  # the text itself ranks last
            if relevant:
                row.sort()
                hits = np.flatnonzero(row[:relevant] & 1) + 1.0
                results[:, text] = row[0] & 1, (np.arange(1, len(hits) + 1) / hits).sum() / relevant

    pairs.over_blocks(rank, pairs.unit_rows(vectors))
    return results
