"""Folds: every text is tested once, classes keep their shares, and the embeddings decide nothing."""

import numpy as np

from contrastive.evaluation.metrics.folds import folds
from contrastive.evaluation.metrics.types import Inputs

LABELS = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [50, 30, 20]))


def found(seed: int) -> list[tuple[list[int], list[int]]]:
    vectors = np.random.default_rng(seed).normal(size=(100, 4)).astype(np.float32)
    return [(train.tolist(), test.tolist()) for train, test in folds(Inputs(vectors, LABELS, None, 5))]


def test_every_text_is_tested_once_by_a_model_that_did_not_see_it():
    assert sorted(text for _, test in found(0) for text in test) == list(range(100))
    assert all(sorted(train + test) == list(range(100)) for train, test in found(0))


def test_each_fold_has_the_classes_in_their_shares():
    assert [np.bincount(LABELS[test]).tolist() for _, test in found(0)] == [[10, 6, 4]] * 5


def test_all_cells_of_a_data_set_share_the_folds():
    assert found(0) == found(1)
