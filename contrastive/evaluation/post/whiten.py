"""Linear post-processing of embeddings: standardisation and whitening, both fitted on the training texts."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from contrastive.errors import UserError


def standardise(train: Float[np.ndarray, "n d"]) -> Callable[[Float[np.ndarray, "m d"]], Float[np.ndarray, "m d"]]:
    """Standardise embeddings: mean 0 and standard deviation 1 per dimension, estimated on the training texts. Return a
    function for (x − mean) / std per dimension. Dimensions that are constant in training become 0."""
    exact = train.astype(np.float64)
    mean = exact.mean(0)
    scale = inverse(exact.std(0), exact)

    def apply(vectors: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m d"]:
        return ((vectors - mean) * scale).astype(np.float32)

    return apply


COLLAPSED = 1e-6  # standard deviation relative to the largest value, below which float32 holds rounding only


def inverse(spread: Float[np.ndarray, " d"], vectors: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " d"]:
    """Return 1 / standard deviation; 0 for directions that vary by no more than float32 rounding.

    Scaled to variance 1, rounding would weigh as much as the directions that carry information.
    """
    varies = spread > COLLAPSED * np.abs(vectors).max()
    return np.divide(1.0, spread, out=np.zeros_like(spread), where=varies)


def first(
    train: Float[np.ndarray, "n d"], *, columns: int
) -> Callable[[Float[np.ndarray, "m d"]], Float[np.ndarray, "m k"]]:
    """Keep the first numbers of embeddings, as Matryoshka trains them to be used. Kusupati et al., "Matryoshka
    Representation Learning", 2022."""
    if columns > train.shape[1]:
        raise UserError(f"first:{columns} keeps {columns} columns, but the embeddings have {train.shape[1]}")

    def apply(vectors: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m k"]:
        return vectors[:, :columns]

    return apply


def whiten(
    train: Float[np.ndarray, "n d"], *, columns: int | None = None
) -> Callable[[Float[np.ndarray, "m d"]], Float[np.ndarray, "m k"]]:
    """BERT-whitening of embeddings: uncorrelated directions of variance 1, sorted by their original variance. Su et
    al., "Whitening Sentence Representations for Better Semantics and Faster Retrieval", 2021; repository
    bojone/BERT-whitening.

    Return a function for (x − μ) W, W the first columns of U Λ^(−1/2), U Λ Uᵀ the covariance of `train` (by n − 1). A
    direction without variance in training (with n ≤ d texts there are at least d − n + 1) becomes a column of zeros:
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
