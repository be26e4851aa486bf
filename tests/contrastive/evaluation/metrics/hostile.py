"""Embeddings that measures have to survive, each with its labels: 120 texts, few enough for a loop over pairs."""

import numpy as np

from contrastive.evaluation.metrics.types import Inputs

TEXTS, SIZE = 120, 33
GENERATOR = np.random.default_rng(0)
LABELS = GENERATOR.permutation(np.repeat([4, 0, 9], [70, 30, 20]))
CENTRES = np.eye(10, SIZE)[LABELS]
CLOUDS = 1.2 * CENTRES + 0.5 * GENERATOR.normal(size=(TEXTS, SIZE))
PLACES = GENERATOR.permutation(np.repeat(np.arange(40), 3))

EMBEDDINGS = {
    "clouds": CLOUDS,
    "far from the origin": CLOUDS + 1000,
    "far, and hardly spread": 1e-3 * CLOUDS + 1000,  # half of what float32 can tell there
    "one large dimension": CLOUDS + 1e4 * (np.arange(SIZE) == 5),
    "tiny": 1e-20 * CLOUDS,
    "huge": 1e20 * CLOUDS,
    "all of one length": CLOUDS / np.linalg.norm(CLOUDS, axis=1, keepdims=True),
    "of very different lengths": CLOUDS * 10.0 ** GENERATOR.uniform(-4, 4, (TEXTS, 1)),
    "in one direction": 1 + GENERATOR.uniform(size=(TEXTS, 1)) * np.ones(SIZE),
    "duplicates": CLOUDS[PLACES],
    "duplicates, far": CLOUDS[PLACES] + 1000,
    "nearly duplicates": CLOUDS[PLACES] + 1e-6 * GENERATOR.normal(size=(TEXTS, SIZE)),
    "a point a class": CENTRES + 0.1,
    "nearly a point a class": CENTRES + 1e-4 * CLOUDS,
    "one point": np.full((TEXTS, SIZE), 0.1),
    "zeros": np.zeros((TEXTS, SIZE)),
    "some zeros": CLOUDS * (np.arange(TEXTS) % 7 > 0)[:, None],
    "a grid": GENERATOR.integers(-1, 2, (TEXTS, 3)) + 0.0,  # full of ties
    "one dimension": CLOUDS[:, :1],
    "an outlier": CLOUDS * np.where(np.arange(TEXTS) == 3, 1e6, 1)[:, None],
}


def inputs(name: str) -> Inputs:
    return Inputs(EMBEDDINGS[name].astype(np.float32), LABELS, None, folds=5)


def directions(name: str) -> np.ndarray:
    """The normalised vectors; those of zeros in a last dimension of their own, at a right angle to all others."""
    vectors = inputs(name).embeddings.astype(np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.concatenate([vectors / np.where(lengths > 0, lengths, 1), lengths == 0], 1)
