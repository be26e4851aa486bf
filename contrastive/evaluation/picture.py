"""Pictures of embeddings: t-SNE of the texts with the smallest ids, and nearest neighbours of images."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Integer

from contrastive.config.cell import Images
from contrastive.config.evaluation import Evaluation
from contrastive.data.tokens import TokenSplit
from contrastive.evaluation import parallel

PERPLEXITY = 30.0  # neighbours of a point; at most a third of the other texts
FEWEST = 4  # texts for a perplexity of 1
COLLAPSED = 1e-6  # relative spread below which float32 holds rounding only
# Least number of texts for t-SNE's early exaggeration. With fewer, most texts are near neighbours, and twelvefold
# attraction pulls them onto one point (spread 1e-36 with 10 texts), where they stay or become NaN.
EXAGGERATED = 100
ONE_POINT = 1e-3  # smallest spread of a picture; t-SNE starts at 1e-4 and its length scale is 1
ROWS = 256  # texts in a block of distances
MANY = 10_000  # points above which forces are interpolated on a grid
METHOD = "t-SNE"
ASKED, NEAREST = 8, 6  # images, and the neighbours of each
MARKS, SIDE = 300, 28  # most images that mark points, those with the least ids, and pixels of their longest side


def make_picture(embeddings: Mapping[str, Any], evaluation: Evaluation, test: str = "test") -> dict[str, Any]:
    """Return coordinates `x` of texts with labels and ids; if no picture is possible, none and the reason.

    `test`: the name under which the test texts are stored.
    """
    split = test if test in embeddings else evaluation.splits[0]
    ids, labels = embeddings[f"{split}.ids"], embeddings[f"{split}.labels"]
    chosen = np.sort(np.argsort(ids, kind="stable")[: evaluation.picture_points])
    coordinates, reason = coordinates_of(embeddings[split][chosen])
    if reason:
        chosen = chosen[:0]
    return {
        "x": coordinates,
        "labels": labels[chosen],
        "ids": ids[chosen],
        "reason": np.array(reason),
        "method": np.array(METHOD),
    }


def coordinates_of(vectors: Float[np.ndarray, "n d"]) -> tuple[Float[np.ndarray, "m 2"], str]:
    """Return the coordinates; or none, and why these vectors cannot be drawn."""
    (texts, dimensions), exact = vectors.shape, vectors.astype(np.float64)
    no_points = np.zeros((0, 2), np.float32)
    if texts < FEWEST or dimensions < 2:
        return no_points, f"{METHOD} needs {FEWEST} texts and 2 dimensions, but there are {texts} texts of {dimensions}"
    if exact.std(0).max() <= COLLAPSED * np.abs(exact).max():
        return no_points, f"the embeddings of all {texts} texts are the same: they have collapsed"
    coordinates = tsne(scaled(vectors))
    if not np.isfinite(coordinates).all():
        return no_points, f"{METHOD} returned coordinates with NaN or infinity for {texts} texts"
    if coordinates.std(0).max() <= ONE_POINT:  # where t-SNE puts equidistant texts
        return no_points, f"{METHOD} put all {texts} texts onto one point: they are all equally far apart"
    return coordinates, ""


def scaled(vectors: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """Centre and rescale, which leaves the picture the same and prevents overflow of squares."""
    centred = vectors.astype(np.float64) - vectors.mean(0, dtype=np.float64)
    return (centred / centred.std(0).max()).astype(np.float32)


def tsne(vectors: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n 2"]:
    """Run t-SNE from the first two principal components, which preserves the global layout across seeds."""
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
    """Return the `count` nearest other points of each point, and their distances."""
    squares = (vectors**2).sum(1)

    def nearest_of_rows(rows: slice) -> tuple[Any, Any]:
        partial_squares = squares - 2 * vectors[rows] @ vectors.T  # squared distances minus the squared norm of the row
        partial_squares[np.arange(rows.stop - rows.start), np.arange(rows.start, rows.stop)] = np.inf
        nearest = np.argpartition(partial_squares, count - 1, axis=1)[:, :count]
        near = np.take_along_axis(partial_squares, nearest, 1)
        order = np.argsort(near, axis=1, kind="stable")
        distances = np.take_along_axis(near, order, 1) + squares[rows, None]
        return np.take_along_axis(nearest, order, 1), np.sqrt(np.maximum(distances, 0, dtype=np.float64))

    parts = parallel.map_parts(nearest_of_rows, parallel.blocks(len(vectors), ROWS))
    return np.concatenate([indices for indices, _ in parts]), np.concatenate([distances for _, distances in parts])


def nearest_images(
    vectors: Float[np.ndarray, "n d"], labels: Integer[np.ndarray, " n"], texts: TokenSplit, images: Images
) -> dict[str, Any]:
    """Return an image of each class, the one with the least id, followed by the nearest others: values and labels; and
    small images with their ids."""
    order = np.argsort(texts.digests, kind="stable")
    firsts = [order[np.argmax(labels[order] == label)] for label in np.unique(labels)[:ASKED]]
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(lengths > 0, lengths, 1)
    cosines = unit[firsts] @ unit.T
    cosines[np.arange(len(firsts)), firsts] = np.inf  # itself first
    shown = np.argsort(-cosines, axis=1, kind="stable")[:, : NEAREST + 1]
    values = texts.ids.reshape(-1, images.channels, images.size, images.size)
    return {
        "near": np.asarray(values[shown], np.uint8),
        "near_labels": labels[shown],
        "images": small(np.asarray(values[order[:MARKS]], np.uint8)),
        "image_ids": texts.digests[order[:MARKS]],
    }


def small(images: np.ndarray) -> np.ndarray:
    """Shrink images to at most SIDE pixels a side, by the means of blocks of pixels."""
    block = -(-images.shape[-1] // SIDE)
    side = images.shape[-1] // block
    cut = images[..., : side * block, : side * block]
    return cut.reshape(*images.shape[:-2], side, block, side, block).mean((-3, -1)).round().astype(np.uint8)
