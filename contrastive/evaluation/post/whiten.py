"""BERT-whitening: uncorrelated directions of variance 1, those of the largest variance first. Su et al., "Whitening
Sentence Representations for Better Semantics and Faster Retrieval", 2021; repository bojone/BERT-whitening."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from contrastive.errors import UserError
from contrastive.evaluation.post.standardise import inverse


def whiten(
    train: Float[np.ndarray, "n d"], *, columns: int | None = None
) -> Callable[[Float[np.ndarray, "m d"]], Float[np.ndarray, "m k"]]:
    """(x − μ) W with W the first columns of U Λ^(−1/2), of the covariance U Λ Uᵀ of the training embeddings.

    The covariance has the divisor n − 1. A direction without variance in training (with n ≤ d texts there are at least
    d − n + 1) becomes a column of zeros: it adds nothing to a distance or cosine, and the width is what was asked.
    """
    size = train.shape[1]
    if columns is not None and columns > size:
        raise UserError(f"whiten:{columns} keeps {columns} columns, and the embeddings have {size} dimensions: ask for "
                        f"at most whiten:{size}")  # fmt: skip
    exact = train.astype(np.float64)
    mean = exact.mean(0)
    centred = exact - mean
    variances, directions = np.linalg.eigh(centred.T @ centred / (len(train) - 1))  # in ascending order
    spread = np.sqrt(np.maximum(variances[::-1], 0))
    transform = (directions[:, ::-1] * inverse(spread, exact))[:, :columns]

    def apply(vectors: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m k"]:
        return ((vectors - mean) @ transform).astype(np.float32)

    return apply
