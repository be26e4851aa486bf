"""k-means: scikit-learn's KMeans(n_init=10, random_state=0), whose restarts share each pass over the data here.

Starts are drawn as k-means++ draws them, in the same order from the same generator. The bound on movement, and what
becomes of a cluster that lost its last point, are the same too.
"""

from typing import Any

import numpy as np
from jaxtyping import Float, Integer

from contrastive.evaluation import parallel

RESTARTS = 10
ROUNDS = 300
MOVED = 1e-4  # squared movement of all centres, to the mean variance of a dimension, at which a restart ends
ROWS = 512


def clusters(vectors: Float[np.ndarray, "n d"], count: int) -> Integer[np.ndarray, " n"]:
    """The cluster of each vector, by the restart with the smallest sum of squared distances."""
    points = centred(vectors)
    enough = MOVED * points.var(0).mean()
    centres = starts(points, count)
    before, going = np.full((RESTARTS, len(points)), -1, np.int32), np.arange(RESTARTS)
    for _ in range(ROUNDS):
        labels, sums, sizes = assigned(points, centres[going])
        for labels_n, sums_kd, sizes_k, centres_kd in zip(labels, sums, sizes, centres[going], strict=True):
            fill_empty(points, labels_n, sums_kd, sizes_k, centres_kd)
        moved = (sums / np.maximum(sizes, 1)[..., None]).astype(np.float32)
        biggest = moved[np.arange(len(going)), sizes.argmax(1)]
        moved = np.where(sizes[..., None] > 0, moved, biggest[:, None])
        still = (labels == before[going]).all(1) | (((moved - centres[going]) ** 2).sum((1, 2)) <= enough)
        before[going], centres[going] = labels, moved
        going = going[~still]
        if not len(going):
            break
    return best(points, centres)


def centred(vectors: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """Around the mean in float32, as scikit-learn has it, by a power of two of a size whose squares are numbers."""
    largest = float(np.abs(vectors).max())
    points = np.ldexp(vectors, -np.frexp(largest)[1]).astype(np.float32)
    points -= points.mean(0)
    return points


def starts(points: Float[np.ndarray, "n d"], count: int) -> Float[np.ndarray, "r k d"]:
    """Centres by k-means++: of a few points, drawn by their squared distance, the one that leaves the least of it."""
    generator, texts, trials = np.random.RandomState(0), len(points), 2 + int(np.log(count))
    even = np.full(texts, 1 / texts, np.float32)
    drawn = [(generator.choice(texts, p=even), generator.uniform(size=(count - 1, trials))) for _ in range(RESTARTS)]
    chosen = np.array([[first] for first, _ in drawn])
    nearest, ones = distances(points, chosen)[:, 0], np.ones((texts, 1), np.float32)
    left = (nearest @ ones)[:, 0]
    for turn in range(count - 1):
        drops = [shares[turn] * all_left for (_, shares), all_left in zip(drawn, left, strict=True)]
        tried = np.array([np.cumsum(near).searchsorted(drop) for near, drop in zip(nearest, drops, strict=True)])
        tried = np.minimum(tried, texts - 1)
        then = np.minimum(distances(points, tried), nearest[:, None])
        sums = np.stack([then_tn @ ones for then_tn in then])[..., 0]
        least, restarts = sums.argmin(1), np.arange(RESTARTS)
        nearest, left = then[restarts, least], sums[restarts, least]
        chosen = np.concatenate([chosen, tried[restarts, least][:, None]], 1)
    return points[chosen]


def distances(points: Float[np.ndarray, "n d"], chosen: Integer[np.ndarray, "r t"]) -> Float[np.ndarray, "r t n"]:
    """Squared distances of all points to some of them."""
    others = points[chosen.ravel()].astype(np.float64)
    squares = (others**2).sum(1)[:, None]
    made = np.empty((len(others), len(points)), np.float32)

    def fill(rows: slice) -> None:
        here = points[rows].astype(np.float64)
        made[:, rows] = np.maximum(squares - 2 * others @ here.T + (here**2).sum(1), 0)

    parallel.each(fill, parallel.blocks(len(points), ROWS))
    return made.reshape(*chosen.shape, len(points))


def assigned(points: Any, centres: Any) -> tuple[Any, Any, Any]:
    """The nearest centre of each point in each restart, the sums of each centre's points and their number."""
    restarts, count, dimensions = centres.shape
    by_cluster = centres.swapaxes(0, 1).reshape(-1, dimensions)
    halves = (by_cluster**2).sum(1)[:, None] / 2
    labels = np.empty((restarts, len(points)), np.int32)

    def work(rows: slice) -> tuple[Any, Any]:
        far = (halves - by_cluster @ points[rows].T).reshape(count, restarts, -1)
        nearest = np.zeros(far.shape[1:], np.int32)
        for cluster in range(1, count):
            nearer = far[cluster] < far[0]
            np.copyto(nearest, cluster, where=nearer)
            np.copyto(far[0], far[cluster], where=nearer)
        labels[:, rows] = nearest
        own = (nearest == np.arange(count)[:, None, None]).astype(np.float32).reshape(count * restarts, -1)
        return own @ points[rows], own.sum(1)

    sums, sizes = np.zeros(by_cluster.shape), np.zeros(len(by_cluster))
    for part, size in parallel.each(work, parallel.blocks(len(points), ROWS)):
        sums, sizes = sums + part, sizes + size
    return labels, sums.reshape(count, restarts, -1).swapaxes(0, 1), sizes.reshape(count, restarts).T.copy()


def fill_empty(points: Any, labels: Any, sums: Any, sizes: Any, centres: Any) -> None:
    """A cluster without a point gets the one that lies farthest from its own centre."""
    empty = np.flatnonzero(sizes == 0)
    if not len(empty):
        return
    far = ((points - centres[labels]) ** 2).sum(1)
    if far.max() == 0:  # fewer distinct points than clusters
        return
    for cluster, point in zip(empty, np.argsort(-far, kind="stable"), strict=False):
        sums[labels[point]] -= points[point]
        sizes[labels[point]] -= 1
        sums[cluster], sizes[cluster] = points[point], 1


def best(points: Any, centres: Any) -> Any:
    """The clusters of the restart that has the least within; a later one must be better by another division."""
    labels = assigned(points, centres)[0]
    within = [spread(points, centres_kd, labels_n) for centres_kd, labels_n in zip(centres, labels, strict=True)]
    kept = 0
    for restart in range(1, len(centres)):
        if within[restart] < within[kept] and not same(labels[restart], labels[kept]):
            kept = restart
    return labels[kept]


def spread(points: Any, centres: Any, labels: Any) -> float:
    def work(rows: slice) -> Any:
        return ((points[rows] - centres[labels[rows]]) ** 2).sum(dtype=np.float64)

    return float(sum(parallel.each(work, parallel.blocks(len(points), ROWS))))


def same(labels: Any, others: Any) -> bool:
    pairs = np.unique(np.stack([labels, others]), axis=1)
    return len(np.unique(pairs[0])) == pairs.shape[1]
