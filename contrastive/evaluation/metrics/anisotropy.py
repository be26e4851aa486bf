"""Anisotropy and collapse: mean cosine, effective rank, spectrum and spread of the embeddings."""

import numpy as np
from jaxtyping import Float

from contrastive.config.facts import MetricFacts, ScoreFacts
from contrastive.evaluation import parallel
from contrastive.evaluation.metrics import pairs
from contrastive.evaluation.metrics.alignment import normalised
from contrastive.evaluation.metrics.types import Inputs, Score

ANISOTROPY_FACTS = MetricFacts(
    scores=(
        ScoreFacts("anisotropy", low=-1.0, compared=False),
        ScoreFacts("effective_rank", low=1.0, high=None, compared=False),
        ScoreFacts("top_singular_share", compared=False),
        ScoreFacts("spread", high=None, compared=False),
        ScoreFacts("collapsed", compared=False),
    )
)

EQUAL = 0.01  # a spread below this is an alarm even where anisotropy is not measured
COLLAPSED = 0.1  # threshold of the spread, where random directions have 1; same as in contrastive/training/health.py


def anisotropy(inputs: Inputs) -> list[Score]:
    """Compute five scores of the normalised vectors.

    `anisotropy`: mean cosine of two texts. `effective_rank`: e to the entropy of the singular values after centring, as
    shares of their sum. `top_singular_share`: the largest share; `per_example` holds all, largest first. `spread`: mean
    standard deviation of a dimension, times √d; 1 for random directions. `collapsed`: 1 if the spread is below 0.1.
    Only `collapsed` has a direction: well-separated classes need fewer dimensions than random vectors.
    """
    pairs.check_pairs(inputs)
    vectors = normalised(inputs.embeddings)
    count = len(vectors)
    length = np.square(vectors.sum(0)).sum()
    cosine = (length - np.square(vectors).sum()) / (count * (count - 1))
    vectors -= vectors.mean(0)
    shares = singular_values(vectors)
    shares /= max(shares.sum(), 1e-6)
    entropy = -(shares * np.log(np.maximum(shares, 1e-12))).sum()
    spread = spread_of(vectors)
    return [
        Score("anisotropy", float(cosine), None, count, "cosine"),
        Score("effective_rank", float(np.exp(entropy)), None, count, "dimensions"),
        Score("top_singular_share", float(shares[0]), None, count, per_example=shares.astype(np.float32)),
        Score("spread", spread, None, count),
        Score("collapsed", float(spread < COLLAPSED), False, count, "alarm"),
    ]


def spread_of(centred: Float[np.ndarray, "n d"]) -> float:
    """Return the mean standard deviation of a dimension of normalised, centred vectors, times √d."""
    return float(np.sqrt(np.square(centred).mean(0)).mean() * centred.shape[1] ** 0.5)


def all_equal(vectors: Float[np.ndarray, "n d"]) -> bool:
    """Return whether vectors have the same direction to a hundredth, so that scores of them measure rounding."""
    directions = normalised(vectors)
    return len(vectors) > 1 and spread_of(directions - directions.mean(0)) < EQUAL


def singular_values(vectors: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " k"]:
    """Compute singular values, largest first, from the eigenvalues of the smaller Gram matrix."""
    if len(vectors) < vectors.shape[1]:
        vectors = vectors.T
    products = parallel.map_parts(lambda rows: vectors[rows].T @ vectors[rows], parallel.blocks(len(vectors), 2048))
    values = np.linalg.eigvalsh(sum(products))[::-1]
    return np.sqrt(np.where(values > len(values) * np.finfo(np.float64).eps * values[0], values, 0))
