"""The folds of cross-validation: stratified, and fixed by the labels, so that all cells of a data set share them."""

from collections.abc import Iterator

import numpy as np

from contrastive.evaluation.metrics.types import Inputs


def folds(inputs: Inputs) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    from sklearn.model_selection import StratifiedKFold  # 1.5 s, which no training waits for

    inputs.check_folds()
    splitter = StratifiedKFold(inputs.folds, shuffle=True, random_state=0)
    yield from splitter.split(inputs.embeddings, inputs.labels)
