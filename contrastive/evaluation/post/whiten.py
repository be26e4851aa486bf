"""BERT-whitening of embeddings: uncorrelated directions of variance 1, sorted by their original variance.

Su et al., "Whitening Sentence Representations for Better Semantics and Faster Retrieval", 2021; repository
bojone/BERT-whitening.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from contrastive.errors import UserError
from contrastive.evaluation.post.standardise import inverse


def whiten(
    train: Float[np.ndarray, "n d"], *, columns: int | None = None
) -> Callable[[Float[np.ndarray, "m d"]], Float[np.ndarray, "m k"]]:
    """Return a function for (x − μ) W, W the first columns of U Λ^(−1/2), U Λ Uᵀ the covariance of `train` (by n − 1).

    A direction without variance in training (with n ≤ d texts there are at least d − n + 1) becomes a column of zeros:
    distances and cosines ignore it, and the output keeps the requested width.
    """
    size = train.shape[1]
    if columns is not None and columns > size:
        raise UserError(f"whiten:{columns} keeps {columns} columns, but the embeddings have {size} dimensions: use at "
                        f"most whiten:{size}")  # fmt: skip
    exact = train.astype(np.float64)
    mean = exact.mean(0)
    centred = exact - mean
    variances, directions = np.linalg.eigh(centred.T @ centred / (len(train) - 1))  # in ascending order
    spread = np.sqrt(np.maximum(variances[::-1], 0))
    transform = (directions[:, ::-1] * inverse(spread, exact))[:, :columns]

    def apply(vectors: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m k"]:
        return ((vectors - mean) @ transform).astype(np.float32)

    return apply
