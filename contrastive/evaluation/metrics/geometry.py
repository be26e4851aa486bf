"""Metrics of the place of embeddings on the sphere: alignment, uniformity, anisotropy and collapse."""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from jaxtyping import Float

from contrastive.config.facts import MetricFacts, ScoreFacts
from contrastive.evaluation import parallel
from contrastive.evaluation.metrics.types import Inputs, NotMeasurable, Score, average

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


ALIGNMENT_FACTS = MetricFacts(
    scores=(ScoreFacts("alignment_class", high=None), ScoreFacts("alignment_dropout", high=None)),
    needs_dropout_pairs=True,
)


def alignment(inputs: Inputs) -> list[Score]:
    """Alignment: mean distance of positive pairs (Wang & Isola 2020), within classes and between dropout passes.

    Mean |x − y|² of normalised positives: texts of the same class and, if stored, two dropout passes of a text. No loop
    over pairs: in a class of n texts |x − y|² sums to n·Σ|x − mean|². Every pair has the same weight, so large classes
    count more; a class of one text has no pair.
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


UNIFORMITY_FACTS = MetricFacts(scores=(ScoreFacts("uniformity", low=None, high=0.0),))


def uniformity(inputs: Inputs) -> list[Score]:
    """Uniformity of the embeddings on the sphere (Wang & Isola 2020). Log of the mean of exp(−2·|x − y|²) over
    normalised pairs: 0 if all are equal, near −4 for random directions."""
    check_pairs(inputs)
    vectors, count = unit_rows(inputs.embeddings), len(inputs.embeddings)
    potential = sum(over_blocks(lambda _, apart: float(np.exp(-2 * apart).sum()), vectors))
    mean = (potential - count) / (count * (count - 1))  # without the pairs of a text with itself
    return [Score("uniformity", float(np.log(mean)), False, count)]


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
    """Anisotropy and collapse: mean cosine, effective rank, spectrum and spread of the embeddings.

    Compute five scores of the normalised vectors. `anisotropy`: mean cosine of two texts. `effective_rank`: e to the
    entropy of the singular values after centring, as shares of their sum. `top_singular_share`: the largest share;
    `per_example` holds all, largest first. `spread`: mean standard deviation of a dimension, times √d; 1 for random
    directions. `collapsed`: 1 if the spread is below 0.1. Only `collapsed` has a direction: well-separated classes need
    fewer dimensions than random vectors.
    """
    check_pairs(inputs)
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
