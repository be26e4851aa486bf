"""Transfer data with known structure: clouds of labelled texts, pairs with a score."""

import numpy as np

from contrastive.config.evaluation import Transfer
from contrastive.evaluation import transfer


def scored(subset=None, metric=None):
    return Transfer(name="sts", source="file:x.csv", other="b", score="s", subset=subset, metric=metric)


def pairs(count=60, size=5, subsets=(), seed=0):
    generator = np.random.default_rng(seed)
    test, other = generator.normal(size=(2, count, size)).astype(np.float32)
    other += test * generator.random((count, 1)).astype(np.float32)
    found = {"test": test, "test.other": other, "test.scores": generator.integers(0, 6, count).astype(np.float64)}
    return found | ({"test.subsets": generator.choice(subsets, count)} if subsets else {})


def values(settings, vectors):
    return {score.name.rpartition(".")[2]: score.value for score in transfer.score(settings, vectors)}
