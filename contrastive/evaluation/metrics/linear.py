"""Many linear classifiers on the same vectors at once: all folds and strengths share each pass over the data.

The vectors are copied once, centred and scaled in float64, so that neither their size nor a common mean costs digits;
the scaler of each problem's own training rows is folded into its weights. L-BFGS minimises the sum of all objectives,
along the eigenvectors of the rows' mean square, each in the unit in which the Hessian would be 1 were all rows curved
alike. Products with the data are one GEMM for all classifiers together, a block of rows at a time, in float32 where
there is much data; all else is float64.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Integer
from scipy.linalg import eigh
from scipy.optimize import minimize
from scipy.special import expit

from contrastive.evaluation import parallel
from contrastive.evaluation.metrics.types import Inputs

ROWS = 1024  # of a block: it stays in cache while it is used
COLUMNS = 128  # of a part of the Gram matrix
STEPS = 1000  # of L-BFGS; a hundred are many
TOLERANCE = 1e-4  # largest entry of the gradient at the optimum
SMALL = 2**21  # numbers of the data up to which float64 is quick enough; float32's rounding ends the search earlier
EPSILON = np.finfo(np.float64).eps
Loss = Literal["hinge", "logistic"]


def cross_validated(inputs: Inputs, loss: Loss) -> Bool[np.ndarray, " n"]:
    """Which texts a classifier with C = 1 gets right that was trained on the other folds, its scaler too."""
    classes, parts = np.unique(inputs.labels, return_inverse=True)[1], [test for _, test in folds(inputs)]
    members = np.ones((len(parts), len(classes)), bool)
    for fold, test in enumerate(parts):
        members[fold, test] = False
    classifiers = fit_classifiers(inputs.embeddings, classes, members, np.ones(len(parts)), loss=loss, scaled=True)
    right = np.zeros(len(classes), bool)
    for fold, test in enumerate(parts):
        right[test] = classifiers.predict(inputs.embeddings[test], fold) == classes[test]
    return right


@dataclass(frozen=True)
class Classifiers:
    """Fitted linear classifiers, numbered as the problems were."""

    mean: Float[np.ndarray, " d"]
    unit: Float[np.ndarray, " d"]
    weights: Float[np.ndarray, "r k d"]  # of vectors around `mean`, in units of `unit`
    intercepts: Float[np.ndarray, "r k"]

    def decide(self, vectors: Float[np.ndarray, "m d"], problem: int) -> Float[np.ndarray, "m ..."]:
        """Scores of each class; of two classes one score, positive for the second."""
        weights = self.weights[problem].T / self.unit[:, None]
        scores = np.empty((len(vectors), weights.shape[1]))
        for rows in parallel.blocks(len(vectors), ROWS):
            scores[rows] = (vectors[rows] - self.mean) @ weights + self.intercepts[problem]
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, vectors: Float[np.ndarray, "m d"], problem: int) -> Integer[np.ndarray, " m"]:
        scores = self.decide(vectors, problem)
        return scores.argmax(1) if scores.ndim == 2 else (scores > 0).astype(np.int64)


def hinge(scores: Any, signs: Any) -> tuple[Any, Any]:
    """max(0, 1 − sign · score)², and its derivative"""
    gap = np.maximum(1 - signs * scores, 0)
    return gap**2, -2 * signs * gap


def logistic_loss(scores: Any, signs: Any) -> tuple[Any, Any]:
    """log(1 + exp(−sign · score)), and its derivative"""
    away = -signs * scores
    return np.logaddexp(away, np.zeros_like(away)), -signs * expit(away)


def softmax(scores: Any, one_hot: Any) -> tuple[Any, Any]:
    """−log softmax of the class that is wanted, and its derivative"""
    below = scores - scores.max(-1, keepdims=True)
    powers = np.exp(below)
    total = powers.sum(-1, keepdims=True)
    return one_hot * (np.log(total) - below), powers / total - one_hot


# a loss with the curvature of a row that is taken for the usual one
CURVES = {"hinge": (hinge, 0.3), "logistic": (logistic_loss, 0.1), "softmax": (softmax, 0.1)}


@dataclass(frozen=True)
class Problems:
    """Each has w columns of weights, the last of a column its intercept, and is independent of the others."""

    rows: Float[np.ndarray, "n d"]
    wanted: Integer[np.ndarray, "n p w"]  # the sign of the score, or for softmax the class as 1 of w
    inside: Bool[np.ndarray, "n p"]  # the rows it trains on
    strengths: Float[np.ndarray, " p"]
    scale: Float[np.ndarray, "p d"]  # |scale·v|² / 2 is penalised,
    shift: Float[np.ndarray, "p d"]
    penalty: float  # and (c + shift·v)² / 2 as often
    kind: str

    def minimise(self) -> Float[np.ndarray, "p w e"]:
        """The weights at each problem's optimum."""
        curvature = self.strengths[:, None] * len(self.rows) * CURVES[self.kind][1]
        level, basis = (self.scale**2).mean(1, keepdims=True), self.basis
        units = np.concatenate([level + curvature * self.squares(), self.penalty + curvature], 1) ** -0.5
        shape = (len(units), self.wanted.shape[2], units.shape[1])

        def objective(flat: Any) -> tuple[float, Any]:
            turned = flat.reshape(shape) * units[:, None]
            weights = np.concatenate([turned[..., :-1] @ basis.T, turned[..., -1:]], -1)
            penalised = self.penalised(weights)
            loss, slope = self.losses(turned)
            slope += np.concatenate([penalised[..., :-1] @ basis, penalised[..., -1:]], -1)
            return loss + float((weights * penalised).sum()) / 2, (slope * units[:, None]).ravel()

        ends_at = 1e-9 if self.rows.dtype == np.float32 else 1e-13  # share of the objective
        options = {"maxcor": 20, "maxiter": STEPS, "maxfun": 2 * STEPS, "gtol": TOLERANCE, "ftol": ends_at, "maxls": 8}
        ended = minimize(objective, np.zeros(np.prod(shape)), jac=True, method="L-BFGS-B", options=options)
        if ended.status == 1:
            warnings.warn(
                f"{len(units)} linear classifiers have not reached their optimum after {ended.nit} steps: they are "
                "measured as they are then",
                RuntimeWarning,
                stacklevel=2,
            )
        turned = ended.x.reshape(shape) * units[:, None]
        return np.concatenate([turned[..., :-1] @ basis.T, turned[..., -1:]], -1)

    @cached_property
    def basis(self) -> Float[np.ndarray, "d d"]:
        """Eigenvectors of the mean square of a row; rounding in it costs time, not digits of the result."""
        gram = np.empty((self.rows.shape[1],) * 2)

        def fill(columns: slice) -> None:
            gram[columns] = self.rows[:, columns].T @ self.rows / len(self.rows)

        parallel.map_parts(fill, parallel.blocks(len(gram), COLUMNS))
        vectors: Float[np.ndarray, "d d"] = eigh(gram)[1]
        return vectors

    @cached_property
    def turned_rows(self) -> Float[np.ndarray, "n d"]:
        """The rows along the eigenvectors."""
        basis, made = self.basis.astype(self.rows.dtype), np.empty_like(self.rows)

        def fill(rows: slice) -> None:
            np.matmul(self.rows[rows], basis, out=made[rows])

        parallel.map_parts(fill, parallel.blocks(len(made), ROWS))
        return made

    def squares(self) -> Float[np.ndarray, "p d"]:
        """The mean square of each problem's own rows along each eigenvector."""

        def work(part: slice) -> Any:
            return self.inside[part].astype(np.float64).T @ self.turned_rows[part].astype(np.float64) ** 2

        total: Any = sum(parallel.map_parts(work, parallel.blocks(len(self.rows), ROWS)))
        return total / self.inside.sum(0)[:, None]

    def losses(self, weights: Any) -> tuple[float, Any]:
        """The sum of all losses, each times its problem's strength, and the gradient by these weights."""
        flat, curve = weights.astype(self.rows.dtype), CURVES[self.kind][0]
        push, starts = np.ascontiguousarray(flat[..., :-1].reshape(-1, self.rows.shape[1]).T), flat[..., -1]

        def work(part: slice) -> tuple[Any, Any]:
            rows, inside = self.turned_rows[part], self.inside[part, :, None]
            loss, slope = curve((rows @ push).reshape(self.wanted[part].shape) + starts, self.wanted[part])
            slopes = (slope * inside).reshape(len(rows), -1)
            pulled = np.concatenate([slopes.T @ rows, slopes.sum(0)[:, None]], 1)
            return (loss * inside).sum((0, 2), dtype=np.float64), pulled

        total, gradient = np.zeros(len(self.strengths)), np.zeros(weights.shape)
        for losses, pulled in parallel.map_parts(work, parallel.blocks(len(self.rows), ROWS)):
            total += losses
            gradient += pulled.reshape(weights.shape)
        return float(self.strengths @ total), gradient * self.strengths[:, None, None]

    def penalised(self, weights: Any) -> Any:
        """The gradient of what is penalised."""
        shift = self.shift[:, None]
        start = self.penalty * (weights[..., -1:] + (shift * weights[..., :-1]).sum(-1, keepdims=True))
        return np.concatenate([self.scale[:, None] ** 2 * weights[..., :-1] + start * shift, start], -1)


def fit_classifiers(
    vectors: Float[np.ndarray, "n d"],
    classes: Integer[np.ndarray, " n"],
    members: Bool[np.ndarray, "r n"],
    strengths: Float[np.ndarray, " r"],
    *,
    loss: Loss,
    scaled: bool,
) -> Classifiers:
    """Classifiers of classes 0 … k − 1; problem p trains on the rows `members[p]` with C = `strengths[p]`.

    hinge: squared hinge, one class against the rest, the intercept penalised like a weight (LinearSVC). logistic:
    softmax, of two classes the plain logistic, the intercept free (LogisticRegression). Both add |w|² / 2 to C
    times the sum of losses. `scaled` standardises by mean and deviation of the problem's own rows.
    """
    count = int(classes.max()) + 1
    assert count > 1, "all rows are of one class"
    rows, mean, unit = centred(vectors, scaled)
    one_hot = (classes[:, None] == np.arange(count)).astype(np.int8)
    together = loss == "logistic" and count > 2  # the classes of a problem share their losses
    signs = 2 * one_hot[:, 1:] - 1 if count == 2 else 2 * one_hot - 1
    machines = 1 if together else signs.shape[1]
    wanted = np.tile(one_hot[:, None] if together else signs[..., None], (1, len(members), 1))
    scale, shift = scalers(rows, mean, unit, members, scaled)
    problems = Problems(
        rows,
        wanted,
        members.repeat(machines, 0).T,
        strengths.repeat(machines),
        scale.repeat(machines, 0),
        shift.repeat(machines, 0),
        float(loss == "hinge"),
        "softmax" if together else loss,
    )
    weights = problems.minimise().reshape(len(members), -1, rows.shape[1] + 1)
    return Classifiers(mean, unit, weights[..., :-1], weights[..., -1])


def centred(
    vectors: Float[np.ndarray, "n d"], columns: bool
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    """The rows around their mean, in units of each column's deviation, or of that of all; mean and units."""
    mean, blocks = vectors.mean(0, dtype=np.float64), parallel.blocks(len(vectors), ROWS)
    square = sum(parallel.map_parts(lambda rows: ((vectors[rows] - mean) ** 2).sum(0), blocks)) / len(vectors)
    constant = square <= len(vectors) * EPSILON * square + (len(vectors) * mean * EPSILON) ** 2
    square = np.where(constant, 0, square)
    unit = np.sqrt(square if columns else np.full_like(square, square.mean()))
    unit[unit == 0] = 1
    made = np.empty(vectors.shape, np.float64 if vectors.size <= SMALL else np.float32)

    def fill(rows: slice) -> None:
        made[rows] = np.where(constant, 0, (vectors[rows] - mean) / unit)

    parallel.map_parts(fill, blocks)
    return made, mean, unit


def scalers(rows: Any, mean: Any, unit: Any, members: Any, scaled: bool) -> tuple[Any, Any]:
    """What makes of a weight v of such rows, and of their intercept c, what is penalised: scale·v and c + shift·v."""
    if not scaled:
        return np.tile(1 / unit, (len(members), 1)), np.tile(-mean / unit, (len(members), 1))

    def moments(part: slice) -> Any:
        inside, values = members[:, part].astype(np.float64), rows[part].astype(np.float64)
        return np.stack([inside @ values, inside @ values**2])

    own_mean, square = sum(parallel.map_parts(moments, parallel.blocks(len(rows), ROWS))) / members.sum(1)[:, None]
    variance = square - own_mean**2
    constant = variance <= 1e-10 * square  # to float32, among these rows: its weight is 0, whatever the scale
    return np.sqrt(np.where(constant, 1, variance)), own_mean


def folds(inputs: Inputs) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    from sklearn.model_selection import StratifiedKFold  # 1.5 s, which no training waits for

    inputs.check_folds()
    splitter = StratifiedKFold(inputs.folds, shuffle=True, random_state=0)
    yield from splitter.split(inputs.embeddings, inputs.labels)
