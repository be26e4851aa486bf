"""Panels of one figure lie alike, so that the eye can follow a group from one to the next."""

import numpy as np
import pytest

from reports.figures.tsne import aligned
from reports.pictures import Picture

IDS = np.arange(50, dtype=np.uint64)
PLACES = np.random.default_rng(0).normal(size=(50, 2)) * [3, 1]


def picture(x: np.ndarray, ids: np.ndarray) -> Picture:
    return Picture("t-SNE", x, np.zeros(len(ids), int), ids)


@pytest.mark.parametrize("mirror", [1, -1])
def test_a_picture_that_was_turned_mirrored_and_moved_lies_on_the_first(mirror: int):
    turn = np.array([[0.6, -0.8], [0.8, 0.6]]) @ np.diag([1, mirror])
    other = picture((PLACES @ turn + [7, -4]).astype(np.float32), IDS)
    np.testing.assert_allclose(aligned(other, picture(PLACES, IDS)), PLACES - PLACES.mean(0), atol=1e-5)


def test_texts_are_found_by_their_ids_whatever_their_order_and_distances_stay():
    order = np.random.default_rng(1).permutation(50)
    other = picture(PLACES[order] @ np.array([[0.0, 1], [1, 0]]) * 5, IDS[order])
    found = aligned(other, picture(PLACES, IDS))
    np.testing.assert_allclose(found, 5 * (PLACES - PLACES.mean(0))[order], atol=1e-12)


def test_of_other_texts_nothing_can_be_turned():
    assert (aligned(picture(PLACES, IDS), picture(PLACES[::-1], IDS + np.uint64(50))) == PLACES).all()
