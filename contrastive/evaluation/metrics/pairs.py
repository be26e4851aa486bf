"""Squared distances of all pairs of texts, in float64, some rows at a time: 20 000 texts would make 3 GB at once."""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from jaxtyping import Float

from contrastive.evaluation import parallel
from contrastive.evaluation.metrics.types import Inputs, NotMeasurable

Result = TypeVar("Result")
BYTES = 2**24  # of a block of distances


def over_blocks(
    work: Callable[[slice, Float[np.ndarray, "m n"]], Result], vectors: Float[np.ndarray, "n d"]
) -> list[Result]:
    """What `work` makes of some rows and their squared distances to all, which it may overwrite."""
    from sklearn.metrics.pairwise import euclidean_distances

    rows = parallel.blocks(len(vectors), max(1, BYTES // (8 * len(vectors))))
    return parallel.map_parts(lambda some: work(some, euclidean_distances(vectors[some], vectors, squared=True)), rows)


def unit_rows(vectors: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n e"]:
    """Rows of length 1. One of zeros lies along a dimension of its own: its cosine with every other is 0."""
    exact = vectors.astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)
    return np.hstack([exact / np.where(lengths > 0, lengths, 1), lengths == 0])


def check_pairs(inputs: Inputs) -> None:
    if len(inputs.embeddings) < 2:
        raise NotMeasurable("one text has no other to be compared with: give the split more texts")
