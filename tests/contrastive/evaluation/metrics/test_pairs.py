"""The pass over pairs: distances within the bound that they state, every row once, and what only some can be asked."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from contrastive.errors import UserError
from contrastive.evaluation import parallel
from contrastive.evaluation.metrics import measure, pairs
from contrastive.evaluation.metrics.types import Inputs
from tests.contrastive.evaluation.metrics.hostile import EMBEDDINGS, directions, inputs

every_one = pytest.mark.parametrize("name", EMBEDDINGS)
both = pytest.mark.parametrize("precision", [np.float32, np.float64])


def block(name: str, precision: type = np.float32) -> pairs.Block:
    return pairs.Block(pairs.Texts(inputs(name).embeddings, precision), slice(20, 70))


def test_by_hand():
    """(3, 0), (0, 4) and (6, 0): squares 25, 9 and 52, in units of 6²; chords 2 between the axes, 0 along one."""
    vectors = np.array([[3, 0], [0, 4], [6, 0]], np.float32)
    found = pairs.Block(pairs.Texts(vectors), slice(0, 3))
    assert found.squares * 36 == pytest.approx(np.array([[0, 25, 9], [25, 0, 52], [9, 52, 0]]), abs=1e-4)
    assert found.chords == pytest.approx(np.array([[0, 2, 0], [2, 0, 2], [0, 2, 0]]), abs=1e-6)


@every_one
@both
def test_distances_keep_to_their_bound(name, precision):
    found, vectors = block(name, precision), inputs(name).embeddings.astype(np.float64)
    unit = max(np.linalg.norm(vectors, axis=1).max(), 1e-300)
    squares = cdist(vectors[20:70] / unit, vectors / unit, "sqeuclidean")
    chords = cdist(directions(name)[20:70], directions(name), "sqeuclidean")
    assert (np.abs(found.squares - squares) <= found.square_error[:, None]).all()
    assert (np.abs(found.chords - chords) <= found.chord_error[:, None]).all()
    assert found.squares.dtype == found.chords.dtype == precision


@pytest.mark.parametrize("name", ["clouds", "far, and hardly spread", "tiny", "huge", "nearly a point a class"])
def test_the_bound_is_narrow_enough_to_be_of_use(name):
    found = block(name)
    assert np.median(found.squares / found.square_error[:, None]) > 1e4
    assert np.median(found.chords / found.chord_error[:, None]) > 1e4


@every_one
def test_pairs_apart_by_differences(name):
    vectors, texts = inputs(name).embeddings.astype(np.float64), pairs.Texts(inputs(name).embeddings)
    one, other = np.array([0, 5, 5, 8]), np.array([1, 5, 7, 90])
    by_hand = [float(((vectors[a] - vectors[b]) ** 2).sum()) for a, b in zip(one, other, strict=True)]
    assert texts.apart(one, other, normalised=False) == pytest.approx(by_hand, rel=1e-12, abs=0)
    chords = [float(((directions(name)[a] - directions(name)[b]) ** 2).sum()) for a, b in zip(one, other, strict=True)]
    assert texts.apart(one, other, normalised=True) == pytest.approx(chords, rel=1e-9, abs=1e-28)


def test_equal_vectors_are_exactly_as_far_from_all():
    vectors = np.random.default_rng(0).normal(size=(7, 33)).astype(np.float32)
    texts = pairs.Texts(np.tile(vectors, (50, 1)))
    one, other = np.zeros(350, np.int64), np.arange(350)
    for normalised in (False, True):
        apart = texts.apart(one, other, normalised=normalised).reshape(50, 7)
        assert (apart == apart[0]).all()


@pytest.mark.parametrize("name", ["duplicates", "duplicates, far", "a point a class", "some zeros", "one point"])
def test_copies_are_equally_far_to_the_last_bit(name):
    found = block(name)
    vectors = inputs(name).embeddings
    for text in range(0, 120, 7):
        copies = (vectors == vectors[text]).all(1)
        for distances in (found.squares, found.chords):
            assert copies.sum() > 1 and (distances[:, copies] == distances[:, [text]]).all()
            assert (distances[copies[20:70]][:, copies] == 0).all()


def test_a_block_is_not_for_writing():
    with pytest.raises(ValueError, match="read-only"):
        block("clouds").chords[0, 0] = 1


class Watching:
    """Notes which rows it was shown."""

    def __init__(self, inputs: Inputs) -> None:
        self.seen = np.zeros(len(inputs.labels), np.int64)

    def look(self, block: pairs.Block) -> None:
        self.seen[block.rows] += 1

    def scores(self) -> list:
        return []


@pytest.mark.parametrize(("bytes_", "threads"), [(2**24, 1), (4 * 120 * 7, 1), (4 * 120 * 7, 2), (1, 2)])
def test_every_text_is_shown_once(bytes_, threads, monkeypatch):
    monkeypatch.setattr(pairs, "BYTES", bytes_)
    watching, other = Watching(inputs("clouds")), Watching(inputs("clouds"))
    with parallel.threads(threads):
        pairs.look_at_all([watching, other], inputs("clouds"))
    assert (watching.seen == 1).all() and (other.seen == 1).all()


@pytest.mark.parametrize("name", sorted({*EMBEDDINGS} - {"some zeros"}))  # exactly 1 from all others, rounded anyhow
def test_many_blocks_measure_what_one_does_and_two_threads_what_one_does(name, monkeypatch):
    names = ("retrieval", "knn", "uniformity", "silhouette")
    whole = measure(names, inputs(name))
    monkeypatch.setattr(pairs, "BYTES", 4 * 120 * 7)
    with parallel.threads(1):
        parts = measure(names, inputs(name))
    with parallel.threads(2):
        assert measure(names, inputs(name)) == parts  # to the last bit
    assert [score.name for score in parts] == [score.name for score in whole]
    assert [score.value for score in parts] == pytest.approx([score.value for score in whole], abs=1e-3)  # of ties


@pytest.mark.parametrize("name", ["uniformity", "anisotropy"])
def test_one_text_has_no_pairs(name):
    lonely = Inputs(np.ones((1, 3), np.float32), np.zeros(1, np.int64), None, 5)
    with pytest.raises(UserError, match="one text has no other to be compared with: give the split more texts"):
        measure([name], lonely)
