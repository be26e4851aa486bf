"""One pass over all pairs of texts, which serves every measure that compares them.

The distances of a block of rows to all texts are one float32 product. It is made of the normalised vectors u, v, less
their mean, for what embeddings share (a big mean, as collapsed ones have) would take the digits. Those of the vectors
themselves follow from |x − y|² = |x||y|·|u − v|² + (|x| − |y|)², in which nothing cancels. A cosine, 1 − |u − v|²/2, is
never made: near 1 it has lost what |u − v|² still tells.
"""

from collections.abc import Sequence
from functools import cached_property
from threading import Lock
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Integer

from contrastive.evaluation import parallel
from contrastive.evaluation.metrics.types import Inputs, NotMeasurable, Score

RIGHT_ANGLE = 2.0  # |u − v|² of normalised vectors whose cosine is 0
BYTES = 2**24  # of a block of distances: more rows multiply little faster, and leave the processor's cache


@runtime_checkable
class Measure(Protocol):
    """A measure that compares all pairs, as METRICS holds it: made of the inputs, shown every block, then asked."""

    def __init__(self, inputs: Inputs) -> None: ...

    def look(self, block: "Block") -> None:
        """Called once for each block, from several threads: it writes only into its own rows of arrays made before."""

    def scores(self) -> list[Score]: ...


def look_at_all(measures: Sequence[Measure], inputs: Inputs) -> None:
    """Show each measure all pairs of texts, in blocks whose size no thread decides."""
    texts = Texts(inputs.embeddings)

    def show(rows: slice) -> None:
        block = Block(texts, rows)
        for measure in measures:
            measure.look(block)

    count = len(inputs.labels)
    parallel.each(show, parallel.blocks(count, max(1, BYTES // (4 * count))))


def check(inputs: Inputs) -> None:
    if len(inputs.embeddings) < 2:
        raise NotMeasurable("one text has no other to be compared with: give the split more texts")


class Texts:
    """Vectors made ready for products in float32, or in float64 where float32 cannot tell.

    A vector of zeros has the cosine 0 with every other: its chord is that of a right angle, and 0 to its like.
    """

    def __init__(self, embeddings: Float[np.ndarray, "n d"], precision: type[np.floating] = np.float32) -> None:
        self.embeddings, self.precision = embeddings, precision
        vectors = embeddings.astype(np.float64)
        lengths = np.sqrt(np.einsum("nd,nd->n", vectors, vectors))
        self.blank = lengths == 0
        self.lengths = np.where(self.blank, 1, lengths)
        vectors /= self.lengths[:, None]
        vectors -= vectors.mean(0)
        squares = np.einsum("nd,nd->n", vectors, vectors)
        place: dict[bytes, int] = {}
        rows = (row.tobytes() for row in embeddings + np.float32(0))  # −0 becomes 0
        self.copy_of = np.array([place.setdefault(row, len(place)) for row in rows])
        single = np.unique(self.copy_of, return_index=True)[1]  # copies are to be equally far, to the last bit
        self.left = np.empty((len(vectors), vectors.shape[1] + 2), precision)
        self.left[:, :-2], self.left[:, -2], self.left[:, -1] = -2 * vectors, squares, 1
        self.right = np.empty((len(single), vectors.shape[1] + 2), precision)
        self.right[:, :-2], self.right[:, -2], self.right[:, -1] = vectors[single], 1, squares[single]
        self.radii = np.sqrt(squares)
        unit = lengths.max() or 1.0  # of `Block.squares`, so that none over- or underflows
        self.relative = (lengths / unit).astype(precision)
        self.longer = ((lengths - lengths.mean()) / unit).astype(precision)
        self._lock, self._exact = Lock(), None if precision is np.float32 else self

    @property
    def exact(self) -> "Texts":
        """The same in float64."""
        with self._lock:
            if self._exact is None:
                self._exact = Texts(self.embeddings, np.float64)
            return self._exact

    def apart(
        self, one: Integer[np.ndarray, " p"], other: Integer[np.ndarray, " p"], *, normalised: bool
    ) -> Float[np.ndarray, " p"]:
        """Squared distances of pairs, by differences in float64: equal pairs of vectors have equal ones."""
        found = np.empty(len(one))
        for pairs in parallel.blocks(len(one), 2048):
            left, right = self.embeddings[one[pairs]].astype(np.float64), self.embeddings[other[pairs]]
            if normalised:
                left = left / self.lengths[one[pairs], None]
                right = right / self.lengths[other[pairs], None]
            left -= right
            found[pairs] = np.einsum("pd,pd->p", left, left)
            if normalised:
                found[pairs][self.blank[one[pairs]] != self.blank[other[pairs]]] = RIGHT_ANGLE
        return found


class Block:
    """Distances of some texts to all, made when first asked for. Who wants to change them takes a copy."""

    def __init__(self, texts: Texts, rows: slice | Integer[np.ndarray, " m"]) -> None:
        self.texts, self.rows = texts, rows

    @cached_property
    def indices(self) -> Integer[np.ndarray, " m"]:
        """Which texts the rows are."""
        return np.arange(len(self.texts.embeddings))[self.rows]

    @cached_property
    def chords(self) -> Float[np.ndarray, "m n"]:
        """Squared distances of the normalised vectors, 2 − 2·cosine."""
        found = self.texts.left[self.rows] @ self.texts.right.T
        np.maximum(found, 0, out=found)
        found[np.arange(len(found)), self.texts.copy_of[self.rows]] = 0
        if found.shape[1] < len(self.texts.copy_of):
            found = np.take(found, self.texts.copy_of, axis=1)
        if self.texts.blank.any():
            found[self.texts.blank[self.indices, None] != self.texts.blank] = RIGHT_ANGLE
        found.flags.writeable = False
        return found

    @cached_property
    def squares(self) -> Float[np.ndarray, "m n"]:
        """Squared Euclidean distances, in units of the square of the longest vector."""
        texts = self.texts
        apart = texts.longer[self.rows, None] - texts.longer
        np.multiply(apart, apart, out=apart)
        found = self.chords * texts.relative
        found *= texts.relative[self.rows, None]
        found += apart
        found.flags.writeable = False
        return found

    @cached_property
    def chord_error(self) -> Float[np.ndarray, " m"]:
        """What a chord may be off by at most."""
        radii = self.texts.radii
        return self._error(radii[self.rows] + radii.max())

    @cached_property
    def copy_error(self) -> Float[np.ndarray, " m"]:
        """What the chord to a text in the same direction may be at most, instead of 0."""
        return self._error(2 * self.texts.radii[self.rows])

    @cached_property
    def square_error(self) -> Float[np.ndarray, " m"]:
        relative = self.texts.relative.astype(np.float64)
        longer = np.abs(self.texts.longer).astype(np.float64)
        reach = longer[self.rows] + longer.max()
        product = relative[self.rows] * relative.max()
        return self.chord_error * product + 8 * self._rounding * reach**2 + 4e-15 * reach

    def _error(self, reach: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
        """The bound of a product that is summed in any order, and what float64 had lost before."""
        size = self.texts.embeddings.shape[1]
        return (size + 20) * self._rounding * reach**2 + 4e-15 * reach + 1e-30

    @property
    def _rounding(self) -> float:
        return float(np.finfo(self.texts.precision).eps) / 2
