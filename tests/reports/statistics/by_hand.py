"""The statistics once more, by other means: loops and plain formulas, which tests hold the fast ones against."""

import numpy as np

Pair = tuple[int, int]


def star(rows: int) -> tuple[Pair, ...]:
    return tuple((row, 0) for row in range(1, rows))


def variance_of_pair(values: np.ndarray, pair: Pair) -> float:
    """Of the difference at one seed, every row at every seed: the largest of the three estimates."""
    rows, seeds = values.shape
    rest = [[values[i, s] - values[i].mean() - values[:, s].mean() + values.mean() for s in range(seeds)]
            for i in range(rows)]  # fmt: skip
    of_row = [sum(r**2 for r in row) for row in rest]
    pooled = sum(of_row) / (rows - 1) / (seeds - 1)
    own = np.var(values[pair[0]] - values[pair[1]], ddof=1)
    alone = max(of_row[row] for row in pair) * rows / (rows - 1) / (seeds - 1)
    return float(max(own, 2 * pooled, 3 * alone))


def variances(values: np.ndarray) -> np.ndarray:
    """The same of many studies at once, each row against the first one."""
    rows, seeds = values.shape[1:]
    rest = values - values.mean(2, keepdims=True) - values.mean(1, keepdims=True) + values.mean((1, 2), keepdims=True)
    pooled = (rest**2).sum((1, 2)) / (rows - 1) / (seeds - 1)
    alone = (rest**2).sum(2) * rows / (rows - 1) / (seeds - 1)
    own = np.var(values[:, 1:] - values[:, :1], axis=2, ddof=1)
    return np.maximum(np.maximum(own, 2 * pooled[:, None]), 3 * np.maximum(alone[:, 1:], alone[:, :1]))


def text_variance(ours: np.ndarray, theirs: np.ndarray) -> float:
    """What crossed seeds and texts make of the variance of the mean difference, the texts' part."""
    apart = ours.astype(float) - theirs
    seeds, count = apart.shape
    mean, by_seed, by_text = apart.mean(), apart.mean(1), apart.mean(0)
    rest = sum((apart[s, t] - by_seed[s] - by_text[t] + mean) ** 2 for s in range(seeds) for t in range(count))
    over_texts = sum((value - mean) ** 2 for value in by_text) / (count - 1) / count
    return max(0.0, over_texts - rest / (seeds - 1) / (count - 1) / count / seeds)
