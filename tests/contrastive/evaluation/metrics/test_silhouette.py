"""The silhouette is scikit-learn's."""

import numpy as np
import pytest
from sklearn.metrics import silhouette_samples, silhouette_score

from contrastive.errors import UserError
from contrastive.evaluation.metrics import measure
from contrastive.evaluation.metrics.types import Inputs
from tests.contrastive.evaluation.metrics.hostile import EMBEDDINGS, LABELS, inputs


def silhouette(vectors, labels):
    (score,) = measure(["silhouette"], Inputs(np.asarray(vectors, np.float32), np.asarray(labels), None, folds=5))
    return score


def test_by_hand():
    """On a line: 0 and 1 of one class, 4 and 7 of the other. For 0: a = 1, b = (4 + 7)/2; for 4: a = 3, b = 3.5 …"""
    score = silhouette([[0], [1], [4], [7]], [0, 0, 1, 1])
    each = [(5.5 - 1) / 5.5, (4.5 - 1) / 4.5, (3.5 - 3) / 3.5, (6.5 - 3) / 6.5]
    assert score.each == pytest.approx(each, rel=1e-5)
    assert (score.name, score.count, score.higher_is_better) == ("silhouette", 4, True)
    assert score.value == pytest.approx(np.mean(each), rel=1e-5)
    assert score.standard_error == pytest.approx(np.std(each, ddof=1) / 2, rel=1e-5)


def test_a_text_alone_in_its_class_counts_nothing():
    score = silhouette([[0], [1], [4]], [0, 0, 1])
    assert score.each == pytest.approx([3 / 4, 2 / 3, 0], rel=1e-5)
    assert silhouette([[0], [1], [4]], [0, 1, 2]).value == 0


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_it_is_that_of_scikit_learn(name):
    vectors = inputs(name).embeddings.astype(np.float64)
    vectors = (vectors - vectors[0]) / max(np.abs(vectors).max(), 1e-300)  # it multiplies without centring
    (score,) = measure(["silhouette"], inputs(name))
    assert score.value == pytest.approx(silhouette_score(vectors, LABELS), abs=1e-4)
    assert score.each == pytest.approx(silhouette_samples(vectors, LABELS), abs=1e-3)


def test_many_small_classes():
    generator = np.random.default_rng(0)
    labels = generator.permutation(np.repeat(np.arange(70), 3))
    vectors = generator.normal(size=(210, 5))
    assert silhouette(vectors, labels).value == pytest.approx(silhouette_score(vectors, labels), abs=1e-5)


def test_one_class_has_none():
    with pytest.raises(UserError, match="all 3 texts are of one class, which can be told from no other: give"):
        silhouette([[0], [1], [4]], [2, 2, 2])
