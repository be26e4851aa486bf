"""Linear SVMs and logistic regressions for all folds and values of C at once, sharing each pass over the data.

The vectors are copied once, centred and scaled in float64, so that neither their size nor a common mean costs
precision; each problem's own standardisation is folded into its weights. L-BFGS minimises the sum of all objectives,
along the eigenvectors of the rows' second moments, in units that make the Hessian 1 if all rows had equal curvature.
Products with the data are one GEMM for all classifiers, by blocks of rows, in float32 if there is much data; everything
else is float64.
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

ROWS = 1024  # in a block, so that it stays in cache
COLUMNS = 128  # in a block of the Gram matrix
STEPS = 1000  # most L-BFGS iterations; usually below a hundred
TOLERANCE = 1e-4  # largest entry of the gradient at the optimum
SMALL = 2**21  # numbers of data up to which float64 is quick enough; rounding in float32 ends the search earlier
EPSILON = np.finfo(np.float64).eps
Loss = Literal["hinge", "logistic"]


def cross_validated(
    inputs: Inputs, loss: Loss, strengths: tuple[float, ...] = (1.0,), most: int | None = None
) -> Bool[np.ndarray, " n"]:
    """Return which texts a classifier, standardised and trained on the other folds, gets right.

    `strengths`: values of C, of which each fold takes the one that has the most right answers in the other folds (the
    first of equals). `most`: number of texts of each class, drawn at random from these folds, that a classifier is
    trained on; None: all.
    """
    classes, parts = np.unique(inputs.labels, return_inverse=True)[1], [test for _, test in folds(inputs)]
    members = np.ones((len(parts), len(classes)), bool)
    for fold, test in enumerate(parts):
        members[fold, test] = False
        if most is not None:
            drawn = np.random.default_rng(fold).permutation(np.flatnonzero(members[fold]))
            ranks = [np.flatnonzero(classes[drawn] == label)[most:] for label in np.unique(classes)]
            members[fold, drawn[np.concatenate(ranks)]] = False
    right = np.zeros((len(strengths), len(classes)), bool)
    for row, strength in enumerate(strengths):  # one after another: the weak ones need more steps
        each = np.full(len(parts), strength)
        classifiers = fit_classifiers(inputs.embeddings, classes, members, each, loss=loss, scaled=True)
        for fold, test in enumerate(parts):
            right[row, test] = classifiers.predict(inputs.embeddings[test], fold) == classes[test]
    right_answers = np.zeros(len(classes), bool)
    for test in parts:
        best = (right.sum(1) - right[:, test].sum(1)).argmax()
        right_answers[test] = right[best, test]
    return right_answers


@dataclass(frozen=True)
class Classifiers:
    """Fitted linear classifiers, one per problem, in the order of the problems."""

    mean: Float[np.ndarray, " d"]
    unit: Float[np.ndarray, " d"]
    weights: Float[np.ndarray, "r k d"]  # for vectors minus `mean`, divided by `unit`
    intercepts: Float[np.ndarray, "r k"]

    def decide(self, vectors: Float[np.ndarray, "m d"], problem: int) -> Float[np.ndarray, "m ..."]:
        """Return the decision scores per class; for two classes one score, positive for the second."""
        weights = self.weights[problem].T / self.unit[:, None]
        scores = np.empty((len(vectors), weights.shape[1]))
        for rows in parallel.blocks(len(vectors), ROWS):
            scores[rows] = (vectors[rows] - self.mean) @ weights + self.intercepts[problem]
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, vectors: Float[np.ndarray, "m d"], problem: int) -> Integer[np.ndarray, " m"]:
        scores = self.decide(vectors, problem)
        return scores.argmax(1) if scores.ndim == 2 else (scores > 0).astype(np.int64)


def hinge(scores: Any, signs: Any) -> tuple[Any, Any]:
    """Return max(0, 1 − sign · score)² and its derivative."""
    gap = np.maximum(1 - signs * scores, 0)
    return gap**2, -2 * signs * gap


def logistic_loss(scores: Any, signs: Any) -> tuple[Any, Any]:
    """Return log(1 + exp(−sign · score)) and its derivative."""
    loss_input = -signs * scores
    return np.logaddexp(loss_input, np.zeros_like(loss_input)), -signs * expit(loss_input)


def softmax_loss(scores: Any, one_hot: Any) -> tuple[Any, Any]:
    """Return −log softmax in the column of the true class (0 in the others), and its derivative by the scores."""
    shifted = scores - scores.max(-1, keepdims=True)
    powers = np.exp(shifted)
    total = powers.sum(-1, keepdims=True)
    return one_hot * (np.log(total) - shifted), powers / total - one_hot


# each loss with its typical curvature per row
CURVES = {"hinge": (hinge, 0.3), "logistic": (logistic_loss, 0.1), "softmax": (softmax_loss, 0.1)}


@dataclass(frozen=True)
class Problems:
    """Independent problems, each with w weight columns whose last entry is the intercept."""

    rows: Float[np.ndarray, "n d"]
    targets: Integer[np.ndarray, "n p w"]  # the sign of the score; one-hot for softmax
    in_training: Bool[np.ndarray, "n p"]  # the rows each problem trains on
    strengths: Float[np.ndarray, " p"]
    scale: Float[np.ndarray, "p d"]  # the penalty is |scale·v|² / 2 …
    shift: Float[np.ndarray, "p d"]
    penalty: float  # … plus this times (c + shift·v)² / 2
    kind: str

    def minimise(self) -> Float[np.ndarray, "p w e"]:
        """Return the weights at the optimum of each problem."""
        curvature = self.strengths[:, None] * len(self.rows) * CURVES[self.kind][1]
        level, basis = (self.scale**2).mean(1, keepdims=True), self.basis
        units = np.concatenate([level + curvature * self.squares(), self.penalty + curvature], 1) ** -0.5
        shape = (len(units), self.targets.shape[2], units.shape[1])

        def objective(flat: Any) -> tuple[float, Any]:
            rotated = flat.reshape(shape) * units[:, None]
            weights = np.concatenate([rotated[..., :-1] @ basis.T, rotated[..., -1:]], -1)
            penalised = self.penalised(weights)
            loss, slope = self.losses(rotated)
            slope += np.concatenate([penalised[..., :-1] @ basis, penalised[..., -1:]], -1)
            return loss + float((weights * penalised).sum()) / 2, (slope * units[:, None]).ravel()

        ends_at = 1e-9 if self.rows.dtype == np.float32 else 1e-13  # relative decrease of the objective
        options = {"maxcor": 20, "maxiter": STEPS, "maxfun": 2 * STEPS, "gtol": TOLERANCE, "ftol": ends_at, "maxls": 8}
        result = minimize(objective, np.zeros(np.prod(shape)), jac=True, method="L-BFGS-B", options=options)
        if result.status == 1:
            warnings.warn(
                f"{len(units)} linear classifiers have not converged after {result.nit} steps: their scores "
                "use the weights reached",
                RuntimeWarning,
                stacklevel=2,
            )
        rotated = result.x.reshape(shape) * units[:, None]
        return np.concatenate([rotated[..., :-1] @ basis.T, rotated[..., -1:]], -1)

    @cached_property
    def basis(self) -> Float[np.ndarray, "d d"]:
        """Eigenvectors of the rows' second moments; rounding in them costs time, not precision of the result."""
        gram = np.empty((self.rows.shape[1],) * 2)

        def fill(columns: slice) -> None:
            gram[columns] = self.rows[:, columns].T @ self.rows / len(self.rows)

        parallel.map_parts(fill, parallel.blocks(len(gram), COLUMNS))
        vectors: Float[np.ndarray, "d d"] = eigh(gram)[1]
        return vectors

    @cached_property
    def rotated_rows(self) -> Float[np.ndarray, "n d"]:
        """The rows in the basis of the eigenvectors."""
        basis, rotated = self.basis.astype(self.rows.dtype), np.empty_like(self.rows)

        def fill(rows: slice) -> None:
            np.matmul(self.rows[rows], basis, out=rotated[rows])

        parallel.map_parts(fill, parallel.blocks(len(rotated), ROWS))
        return rotated

    def squares(self) -> Float[np.ndarray, "p d"]:
        """Return the mean square of each problem's training rows along each eigenvector."""

        def work(part: slice) -> Any:
            return self.in_training[part].astype(np.float64).T @ self.rotated_rows[part].astype(np.float64) ** 2

        total: Any = sum(parallel.map_parts(work, parallel.blocks(len(self.rows), ROWS)))
        return total / self.in_training.sum(0)[:, None]

    def losses(self, weights: Any) -> tuple[float, Any]:
        """Return the sum of all losses, weighted by strength, and its gradient with respect to the weights."""
        flat, curve = weights.astype(self.rows.dtype), CURVES[self.kind][0]
        directions, intercepts = np.ascontiguousarray(flat[..., :-1].reshape(-1, self.rows.shape[1]).T), flat[..., -1]

        def work(part: slice) -> tuple[Any, Any]:
            rows, inside = self.rotated_rows[part], self.in_training[part, :, None]
            loss, slope = curve((rows @ directions).reshape(self.targets[part].shape) + intercepts, self.targets[part])
            slopes = (slope * inside).reshape(len(rows), -1)
            gradients = np.concatenate([slopes.T @ rows, slopes.sum(0)[:, None]], 1)
            return (loss * inside).sum((0, 2), dtype=np.float64), gradients

        total, gradient = np.zeros(len(self.strengths)), np.zeros(weights.shape)
        for losses, gradients in parallel.map_parts(work, parallel.blocks(len(self.rows), ROWS)):
            total += losses
            gradient += gradients.reshape(weights.shape)
        return float(self.strengths @ total), gradient * self.strengths[:, None, None]

    def penalised(self, weights: Any) -> Any:
        """Return the gradient of the penalty."""
        shift = self.shift[:, None]
        of_intercept = self.penalty * (weights[..., -1:] + (shift * weights[..., :-1]).sum(-1, keepdims=True))
        return np.concatenate([self.scale[:, None] ** 2 * weights[..., :-1] + of_intercept * shift, of_intercept], -1)


def fit_classifiers(
    vectors: Float[np.ndarray, "n d"],
    classes: Integer[np.ndarray, " n"],
    members: Bool[np.ndarray, "r n"],
    strengths: Float[np.ndarray, " r"],
    *,
    loss: Loss,
    scaled: bool,
) -> Classifiers:
    """Fit classifiers of classes 0 … k − 1; problem p trains on the rows `members[p]` with C = `strengths[p]`.

    hinge: squared hinge, one-vs-rest, penalised intercept (like LinearSVC). logistic: softmax, or binary logistic for
    two classes, free intercept (like LogisticRegression). Both add |w|² / 2 to C times the sum of losses. `scaled`:
    standardise by the mean and standard deviation of the problem's training rows.
    """
    count = int(classes.max()) + 1
    assert count > 1, "all rows are of one class"
    rows, mean, unit = centred(vectors, scaled)
    one_hot = (classes[:, None] == np.arange(count)).astype(np.int8)
    is_softmax = loss == "logistic" and count > 2  # one softmax over all classes
    signs = 2 * one_hot[:, 1:] - 1 if count == 2 else 2 * one_hot - 1
    binary_count = 1 if is_softmax else signs.shape[1]
    targets = np.tile(one_hot[:, None] if is_softmax else signs[..., None], (1, len(members), 1))
    scale, shift = scalers(rows, mean, unit, members, scaled)
    problems = Problems(
        rows,
        targets,
        members.repeat(binary_count, 0).T,
        strengths.repeat(binary_count),
        scale.repeat(binary_count, 0),
        shift.repeat(binary_count, 0),
        float(loss == "hinge"),
        "softmax" if is_softmax else loss,
    )
    weights = problems.minimise().reshape(len(members), -1, rows.shape[1] + 1)
    return Classifiers(mean, unit, weights[..., :-1], weights[..., -1])


def centred(
    vectors: Float[np.ndarray, "n d"], columns: bool
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    """Return rows, centred and divided by each column's standard deviation (or a common one), mean and unit."""
    mean, blocks = vectors.mean(0, dtype=np.float64), parallel.blocks(len(vectors), ROWS)
    square = sum(parallel.map_parts(lambda rows: ((vectors[rows] - mean) ** 2).sum(0), blocks)) / len(vectors)
    constant = square <= len(vectors) * EPSILON * square + (len(vectors) * mean * EPSILON) ** 2
    square = np.where(constant, 0, square)
    unit = np.sqrt(square if columns else np.full_like(square, square.mean()))
    unit[unit == 0] = 1
    scaled = np.empty(vectors.shape, np.float64 if vectors.size <= SMALL else np.float32)

    def fill(rows: slice) -> None:
        scaled[rows] = np.where(constant, 0, (vectors[rows] - mean) / unit)

    parallel.map_parts(fill, blocks)
    return scaled, mean, unit


def scalers(rows: Any, mean: Any, unit: Any, members: Any, scaled: bool) -> tuple[Any, Any]:
    """Return (scale, shift) per problem: the penalised weights are scale·v, the penalised intercept is c + shift·v."""
    if not scaled:
        return np.tile(1 / unit, (len(members), 1)), np.tile(-mean / unit, (len(members), 1))

    def moments(part: slice) -> Any:
        inside, values = members[:, part].astype(np.float64), rows[part].astype(np.float64)
        return np.stack([inside @ values, inside @ values**2])

    subset_mean, square = sum(parallel.map_parts(moments, parallel.blocks(len(rows), ROWS))) / members.sum(1)[:, None]
    variance = square - subset_mean**2
    constant = variance <= 1e-10 * square  # in float32, for these rows: the weight becomes 0 for any scale
    return np.sqrt(np.where(constant, 1, variance)), subset_mean


def folds(inputs: Inputs) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    from sklearn.model_selection import StratifiedKFold  # takes 1.5 s: import only when needed

    inputs.check_folds()
    splitter = StratifiedKFold(inputs.folds, shuffle=True, random_state=0)
    yield from splitter.split(inputs.embeddings, inputs.labels)
