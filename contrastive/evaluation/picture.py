"""Two coordinates a text, to look at: t-SNE, or UMAP. Every cell shows the same texts, those with the smallest ids."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Integer

from contrastive.config.evaluation import Evaluation
from contrastive.errors import UserError
from contrastive.evaluation import parallel
from contrastive.evaluation.split_names import stored_split_name

PERPLEXITY = 30.0  # neighbours a point; at most a third of the others
FEWEST = 4  # texts, for a perplexity of 1
COLLAPSED = 1e-6  # spread over size: what float32 rounds to nothing
# Texts from which t-SNE begins with exaggerated attraction. A text of fewer is a near neighbour of most others: pulled
# twelvefold they fall onto one point (spread 1e-36 of 10 texts), and do not come apart again, or become NaN.
EXAGGERATED = 100
ONE_POINT = 1e-3  # spread of coordinates that begin with 1e-4, in which t-SNE's own unit is 1
ROWS = 256  # texts compared at a time
MANY = 10_000  # points from which the forces are interpolated on a grid
NAMES = {"tsne": "t-SNE", "umap": "UMAP"}


def make_picture(embeddings: Mapping[str, Any], evaluation: Evaluation) -> dict[str, Any]:
    """Coordinates `x` of texts, with their labels and ids; none, and the reason, where there is nothing to see."""
    test = stored_split_name("test", evaluation, embeddings)
    split = test if test in embeddings else evaluation.splits[0]
    ids, labels = embeddings[f"{split}.ids"], embeddings[f"{split}.labels"]
    chosen = np.sort(np.argsort(ids, kind="stable")[: evaluation.picture_points])
    coordinates, reason = drawn_points(embeddings[split][chosen], evaluation.picture)
    if reason:
        chosen = chosen[:0]
    return {
        "x": coordinates,
        "labels": labels[chosen],
        "ids": ids[chosen],
        "reason": np.array(reason),
        "method": np.array(NAMES[evaluation.picture]),
    }


def drawn_points(vectors: Float[np.ndarray, "n d"], kind: str) -> tuple[Float[np.ndarray, "m 2"], str]:
    """The coordinates, or none and why."""
    nothing = np.zeros((0, 2), np.float32)
    if reason := why_not(vectors, NAMES[kind]):
        return nothing, reason
    coordinates = {"tsne": tsne, "umap": umap}[kind](scaled(vectors))
    reason = why_lost(coordinates, NAMES[kind])
    return (nothing, reason) if reason else (coordinates, "")


def why_not(vectors: Float[np.ndarray, "n d"], method: str) -> str:
    """Why these vectors have no picture, or nothing."""
    texts, dimensions = vectors.shape
    if texts < FEWEST or dimensions < 2:
        return f"{method} needs {FEWEST} texts and 2 dimensions, and there are {texts} texts of {dimensions}"
    exact = vectors.astype(np.float64)
    if not np.isfinite(exact).all():
        return f"the embeddings of these {texts} texts are not all finite numbers"
    if exact.std(0).max() <= COLLAPSED * np.abs(exact).max():
        return f"the embeddings of all {texts} texts are the same: they have collapsed"
    return ""


def why_lost(coordinates: Float[np.ndarray, "n 2"], method: str) -> str:
    """Why these coordinates are no picture, or nothing: of texts that are all equally far apart t-SNE makes a point."""
    texts = len(coordinates)
    if not np.isfinite(coordinates).all():
        return f"{method} gave coordinates that are not finite numbers, of {texts} texts"
    if coordinates.std(0).max() <= ONE_POINT:
        return f"{method} put all {texts} texts onto one point: they are equally far from each other"
    return ""


def scaled(vectors: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """About the origin, and of a size whose square is a number: the picture stays the same."""
    centred = vectors.astype(np.float64) - vectors.mean(0, dtype=np.float64)
    return (centred / centred.std(0).max()).astype(np.float32)


def tsne(vectors: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n 2"]:
    """From the first two principal components, which keeps what is far apart where it is, whatever the seed."""
    from openTSNE import TSNEEmbedding, affinity, initialization
    from openTSNE.nearest_neighbors import PrecomputedNeighbors

    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    neighbours = nearest_points(vectors, min(len(vectors) - 1, int(3 * perplexity)))
    threads = parallel.thread_count()
    affinities = affinity.PerplexityBasedNN(
        perplexity=perplexity, knn_index=PrecomputedNeighbors(*neighbours), n_jobs=threads
    )
    start = initialization.pca(vectors, random_state=0)
    method = "fft" if len(vectors) > MANY else "bh"
    points = TSNEEmbedding(start, affinities, negative_gradient_method=method, random_state=0, n_jobs=threads)
    if len(vectors) >= EXAGGERATED:
        points.optimize(250, exaggeration=12, momentum=0.5, inplace=True)
    points.optimize(500, momentum=0.8, inplace=True)
    return np.asarray(points, np.float32)


def nearest_points(
    vectors: Float[np.ndarray, "n d"], count: int
) -> tuple[Integer[np.ndarray, "n k"], Float[np.ndarray, "n k"]]:
    """The nearest others of each point, and how far they are."""
    squares = (vectors**2).sum(1)

    def of_rows(rows: slice) -> tuple[Any, Any]:
        between = squares - 2 * vectors[rows] @ vectors.T  # up to the square of the row's own
        between[np.arange(rows.stop - rows.start), np.arange(rows.start, rows.stop)] = np.inf
        nearest = np.argpartition(between, count - 1, axis=1)[:, :count]
        near = np.take_along_axis(between, nearest, 1)
        order = np.argsort(near, axis=1, kind="stable")
        away = np.take_along_axis(near, order, 1) + squares[rows, None]
        return np.take_along_axis(nearest, order, 1), np.sqrt(np.maximum(away, 0, dtype=np.float64))

    parts = parallel.map_parts(of_rows, parallel.blocks(len(vectors), ROWS))
    return np.concatenate([indices for indices, _ in parts]), np.concatenate([away for _, away in parts])


def umap(vectors: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n 2"]:
    try:
        from umap import UMAP
    except ImportError:
        raise UserError("evaluation.picture is umap, which is not installed: `pip install umap-learn`") from None
    points = UMAP(n_neighbors=min(15, len(vectors) - 1), init="pca", random_state=0, n_jobs=1).fit_transform(vectors)
    return np.asarray(points, np.float32)
