"""Distances of all pairs: those of a loop, every row once, and what only some can be asked."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from contrastive.errors import UserError
from contrastive.evaluation import parallel
from contrastive.evaluation.metrics import measure, pairs
from contrastive.evaluation.metrics.types import Inputs
from tests.contrastive.evaluation.metrics.hostile import EMBEDDINGS, directions, inputs


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_directions_have_the_cosines_of_a_loop(name):
    expected = cdist(directions(name), directions(name), "sqeuclidean")
    (found,) = pairs.over_blocks(lambda _, apart: apart.copy(), pairs.unit_rows(inputs(name).embeddings))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize(("bytes_", "threads"), [(2**24, 1), (8 * 120 * 7, 1), (8 * 120 * 7, 2), (1, 2)])
def test_every_row_is_seen_once_beside_all(bytes_, threads, monkeypatch):
    monkeypatch.setattr(pairs, "BYTES", bytes_)
    vectors, seen = inputs("clouds").embeddings.astype(np.float64), np.zeros((120, 120))

    def look(rows, apart):
        seen[rows] += apart

    with parallel.threads(threads):
        pairs.over_blocks(look, vectors)
    np.testing.assert_allclose(seen, cdist(vectors, vectors, "sqeuclidean"), atol=1e-12)


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_many_blocks_measure_what_one_does(name, monkeypatch):
    names = ("retrieval", "knn", "uniformity", "silhouette")
    whole = measure(names, inputs(name))
    monkeypatch.setattr(pairs, "BYTES", 8 * 120 * 7)
    with parallel.threads(1):
        parts = measure(names, inputs(name))
    with parallel.threads(2):
        assert measure(names, inputs(name)) == parts  # to the last bit
    assert [score.name for score in parts] == [score.name for score in whole]
    close = 0.05 if name == "some zeros" else 1e-3  # exactly 1 from all others, rounded anyhow
    assert [score.value for score in parts] == pytest.approx([score.value for score in whole], abs=close)


@pytest.mark.parametrize("name", ["uniformity", "anisotropy"])
def test_one_text_has_no_pairs(name):
    lonely = Inputs(np.ones((1, 3), np.float32), np.zeros(1, np.int64), None, 5)
    with pytest.raises(UserError, match="one text has no other to be compared with: give the split more texts"):
        measure([name], lonely)
