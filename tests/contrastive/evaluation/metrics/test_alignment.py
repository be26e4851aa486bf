"""Alignment is the mean over positives, by hand and by SciPy."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from contrastive.errors import UserError
from contrastive.evaluation.metrics import measure
from contrastive.evaluation.metrics.types import Inputs
from tests.contrastive.evaluation.metrics.hostile import EMBEDDINGS, LABELS, directions, inputs


def test_by_hand():
    """A class of three on the axes, whose pairs are √2, √2 and 2 apart; one of two in one direction; one of one."""
    vectors = np.array([[3, 0], [0, 0.5], [-1, 0], [1, 1], [2, 2], [5, 6]], np.float32)
    (score,) = measure(["alignment"], Inputs(vectors, np.array([7, 7, 7, 1, 1, 3]), None, folds=5))
    assert (score.name, score.count, score.higher_is_better) == ("alignment_class", 5, False)
    assert score.value == pytest.approx((2 + 2 + 4 + 0) / 4)


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_it_is_the_mean_over_all_pairs_of_a_class(name):
    apart = np.concatenate(
        [pdist(directions(name)[label == LABELS, :-1], "sqeuclidean") for label in np.unique(LABELS)]
    )
    (score,) = measure(["alignment"], inputs(name))
    assert score.value == pytest.approx(apart.mean(), rel=1e-7, abs=1e-28)


def test_a_text_through_two_dropouts():
    """A right angle, the same direction, and 60 degrees: 2, 0 and 1."""
    twice = np.array([[[1, 0], [0, 3]], [[1, 1], [2, 2]], [[1, 0], [0.5, 0.75**0.5]]], np.float32)
    vectors = np.ones((5, 2), np.float32)
    found = measure(["alignment"], Inputs(vectors, np.zeros(5, np.int64), None, 5, twice))
    assert [score.name for score in found] == ["alignment_class", "alignment_dropout"]
    score = found[1]
    assert score.each == pytest.approx([2, 0, 1], abs=1e-6) and score.each.dtype == np.float32
    assert (score.count, score.higher_is_better, score.value) == (3, False, pytest.approx(1))
    assert score.standard_error == pytest.approx(1 / 3**0.5, rel=1e-6)


def test_classes_of_one_text_have_no_positives():
    with pytest.raises(
        UserError, match="each of the 3 texts is of a class of its own: there are no positives; give the"
    ):
        measure(["alignment"], Inputs(np.ones((3, 2), np.float32), np.arange(3), None, folds=5))
