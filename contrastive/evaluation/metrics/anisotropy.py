"""Anisotropy: whether the directions of texts use the space, fill a cone, or have collapsed into one."""

from dataclasses import replace

import numpy as np
from jaxtyping import Float

from contrastive.config.facts import MetricFacts
from contrastive.evaluation import parallel
from contrastive.evaluation.metrics import pairs
from contrastive.evaluation.metrics.alignment import normalised
from contrastive.evaluation.metrics.types import Inputs, Score

FACTS = MetricFacts(scores=("anisotropy", "effective_rank", "top_singular_share", "spread", "collapsed"))

COLLAPSED = 0.1  # of the spread that directions drawn at random have; as contrastive/training/collapse.py has it


def anisotropy(inputs: Inputs) -> list[Score]:
    """Of the normalised vectors: `anisotropy`, the mean cosine of two texts; `effective_rank`, e to the entropy of the
    singular values, as shares of their sum, after centring; `top_singular_share`, the largest of these shares, with the
    whole spectrum, largest first, in `each`; `spread`, the standard deviation of a dimension, times √d: 1 for
    directions at random; and `collapsed`, an alarm that is 1 where the spread is below 0.1.

    Only the alarm has a direction: separated classes need fewer dimensions than random ones, and are no worse for it.
    """
    pairs.check_pairs(inputs)
    vectors = normalised(inputs.embeddings)
    count, size = vectors.shape
    length = np.square(vectors.sum(0)).sum()
    cosine = (length - np.square(vectors).sum()) / (count * (count - 1))
    vectors -= vectors.mean(0)
    shares = singular_values(vectors)
    shares /= max(shares.sum(), 1e-6)
    entropy = -(shares * np.log(np.maximum(shares, 1e-12))).sum()
    spread = np.sqrt(np.square(vectors).mean(0)).mean() * size**0.5
    top = Score("top_singular_share", float(shares[0]), None, count)
    return [
        Score("anisotropy", float(cosine), None, count, "cosine"),
        Score("effective_rank", float(np.exp(entropy)), None, count, "dimensions"),
        replace(top, each=shares.astype(np.float32)),
        Score("spread", float(spread), None, count),
        Score("collapsed", float(spread < COLLAPSED), False, count, "alarm"),
    ]


def singular_values(vectors: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " k"]:
    """Largest first, by the eigenvalues of the smaller product of the vectors with themselves."""
    if len(vectors) < vectors.shape[1]:
        vectors = vectors.T
    products = parallel.map_parts(lambda rows: vectors[rows].T @ vectors[rows], parallel.blocks(len(vectors), 2048))
    values = np.linalg.eigvalsh(sum(products))[::-1]
    return np.sqrt(np.where(values > len(values) * np.finfo(np.float64).eps * values[0], values, 0))
