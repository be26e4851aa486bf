"""Squared distances of all pairs of texts in float64, in blocks of rows: all of 20 000 texts would take 3 GB."""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from jaxtyping import Float

from contrastive.evaluation import parallel
from contrastive.evaluation.metrics.types import Inputs, NotMeasurable

Result = TypeVar("Result")
BYTES = 2**24  # size of a block of distances


def over_blocks(
    work: Callable[[slice, Float[np.ndarray, "m n"]], Result], vectors: Float[np.ndarray, "n d"]
) -> list[Result]:
    """Apply `work` to blocks of rows with their squared distances to all rows, which it may overwrite."""
    from sklearn.metrics.pairwise import euclidean_distances

    rows = parallel.blocks(len(vectors), max(1, BYTES // (8 * len(vectors))))
    return parallel.map_parts(lambda part: work(part, euclidean_distances(vectors[part], vectors, squared=True)), rows)


def unit_rows(vectors: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n e"]:
    """Scale rows to length 1; a row of zeros points along an extra dimension, so its cosine with all others is 0."""
    exact = vectors.astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)
    return np.hstack([exact / np.where(lengths > 0, lengths, 1), lengths == 0])


def check_pairs(inputs: Inputs) -> None:
    if len(inputs.embeddings) < 2:
        raise NotMeasurable("a single text makes no pair: give the split more texts")
