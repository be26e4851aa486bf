"""Retrieval by class: each text asks for the others of its class, by the cosine (Musgrave et al. 2020)."""

from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float, Integer

from contrastive.config.facts import MetricFacts
from contrastive.evaluation.metrics import pairs
from contrastive.evaluation.metrics.types import Inputs, NotMeasurable, Score, average, proportion

FACTS = MetricFacts(scores=("precision_at_1", "map_at_r"), of_classes=True)

EQUAL = 1e-12  # squared distances that differ by less are equal: vectors of float32 are no more exact


def retrieval(inputs: Inputs) -> list[Score]:
    """Precision at 1, and MAP@R: with R other texts in a class, the sum of the precisions at those k ≤ R whose k-th
    nearest has the class, over R.

    Equally near texts are ranked against us, those of other classes first: collapsed embeddings find nothing by luck.
    A text alone in its class asks for nothing: it is left out of both means, and NaN in `each`.
    """
    inputs.check_classes()
    _, own, sizes = np.unique(inputs.labels, return_inverse=True, return_counts=True)
    asks = sizes[own] > 1
    if not asks.any():
        raise NotMeasurable(
            f"each of the {len(own)} texts is of a class of its own: there is none to retrieve; give the split more "
            "texts"
        )
    first, precision = of_each(inputs.embeddings, own, sizes[own] - 1)
    scores = proportion("precision_at_1", first[asks] == 1), average("map_at_r", precision[asks], True)
    return [replace(scores[0], each=scores[0].each if asks.all() else first), replace(scores[1], each=precision)]


def of_each(
    vectors: Float[np.ndarray, "n d"], own: Integer[np.ndarray, " n"], others: Integer[np.ndarray, " n"]
) -> Float[np.ndarray, "2 n"]:
    """Whether the nearest text has the class, and the precision, of each text; NaN where there are no others."""
    made = np.full((2, len(own)), np.nan, np.float32)

    def look(rows: slice, apart: Any) -> None:
        ranks = np.round(apart / EQUAL).astype(np.int64) * 2
        ranks |= own[rows, None] == own  # the lowest bit says whether the class is the same, and ranks it last
        for text, row in enumerate(ranks, start=rows.start):
            wanted, row[text] = others[text], np.iinfo(np.int64).max  # never among the first
            if wanted:
                row.sort()
                hits = np.flatnonzero(row[:wanted] & 1) + 1.0
                made[:, text] = row[0] & 1, (np.arange(1, len(hits) + 1) / hits).sum() / wanted

    pairs.over_blocks(look, pairs.unit_rows(vectors))
    return made
