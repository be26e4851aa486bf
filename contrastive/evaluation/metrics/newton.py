"""Newton's method for many linear classifiers at once, with conjugate gradients for each step.

Products with the data are one float32 GEMM for all classifiers together, a block of rows at a time; all else is
float64. What the gradients are conditioned with is made of one Gram matrix of all rows, taken apart into eigenvectors
once, which then fits any strength and curvature.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Integer
from scipy.linalg import eigh
from scipy.special import expit

from contrastive.evaluation import parallel

ROWS = 1024  # of a block: it stays in cache while it is used
COLUMNS = 128  # of a part of the Gram matrix
STEPS = 100  # of Newton; twenty are many
PRODUCTS = 300  # of conjugate gradients in one step
TOLERANCE = 1e-8  # share of the objective by which the next step would still lower it

Curve = Callable[[Any, Any], tuple[Any, Any, Any]]  # scores, what is wanted → loss, its derivative and curvature


def hinge(scores: Any, signs: Any) -> tuple[Any, Any, Any]:
    """max(0, 1 − sign · score)²"""
    gap = np.maximum(1 - signs * scores, 0)
    return gap**2, -2 * signs * gap, np.float32(2) * (gap > 0)


def logistic_loss(scores: Any, signs: Any) -> tuple[Any, Any, Any]:
    """log(1 + exp(−sign · score))"""
    away = -signs * scores
    wrong = expit(away)
    return np.logaddexp(away, np.float32(0)), -signs * wrong, wrong * (1 - wrong)


def softmax(scores: Any, one_hot: Any) -> tuple[Any, Any, Any]:
    """−log softmax of the class that is wanted. For the curvature, diag(p) − ppᵀ, p is enough."""
    below = scores - scores.max(-1, keepdims=True)
    powers = np.exp(below)
    total = powers.sum(-1, keepdims=True)
    shares = powers / total
    return one_hot * (np.log(total) - below), shares - one_hot, shares


CURVES = {"hinge": hinge, "logistic": logistic_loss, "softmax": softmax}


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
    curve: Curve

    def some(self, chosen: Any) -> "Problems":
        return replace(
            self,
            wanted=self.wanted[:, chosen],
            inside=self.inside[:, chosen],
            strengths=self.strengths[chosen],
            scale=self.scale[chosen],
            shift=self.shift[chosen],
        )

    def blocks(self) -> list[slice]:
        return parallel.blocks(len(self.rows), ROWS)

    def scores(self, weights: Any) -> Any:
        made = np.empty(self.wanted.shape, np.float32)
        push, starts = self.columns(weights)

        def fill(rows: slice) -> None:
            np.add((self.rows[rows] @ push).reshape(made[rows].shape), starts, out=made[rows])

        parallel.each(fill, self.blocks())
        return made

    def columns(self, weights: Any) -> tuple[Any, Any]:
        flat = weights.astype(np.float32)
        return np.ascontiguousarray(flat[..., :-1].reshape(-1, self.rows.shape[1]).T), flat[..., -1]

    def pull(self, rows: slice, values: Any) -> Any:
        """Sums of the rows, and of 1, times the values."""
        flat = values.reshape(len(values), -1)
        return np.concatenate([flat.T @ self.rows[rows], flat.sum(0)[:, None]], 1)

    def gathered(self, work: Callable[[slice], Any], like: Any) -> Any:
        """Sums of `pull` over all rows, in their order, times each problem's strength."""
        total = np.zeros(like.shape)
        for part in parallel.each(work, self.blocks()):
            total += part.reshape(like.shape)
        return total * self.strengths[:, None, None]

    def bent(self, scores: Any) -> tuple[Any, Any, Any]:
        """The losses of each problem, and each row's derivatives and curvatures."""
        slopes, bends = np.empty_like(scores), np.empty_like(scores)

        def fill(rows: slice) -> Any:
            loss, slope, bend = self.curve(scores[rows], self.wanted[rows])
            inside = self.inside[rows, :, None]
            np.multiply(slope, inside, out=slopes[rows])
            np.multiply(bend, inside, out=bends[rows])
            return (loss * inside).sum((0, 2), dtype=np.float64)

        return self.strengths * sum(parallel.each(fill, self.blocks())), slopes, bends

    def penalised(self, weights: Any) -> Any:
        """The gradient of what is penalised."""
        shift = self.shift[:, None]
        start = self.penalty * (weights[..., -1:] + (shift * weights[..., :-1]).sum(-1, keepdims=True))
        return np.concatenate([self.scale[:, None] ** 2 * weights[..., :-1] + start * shift, start], -1)

    def product(self, bends: Any, direction: Any) -> Any:
        """The Hessian times a direction."""
        push, starts = self.columns(direction)

        def work(rows: slice) -> Any:
            bend = bends[rows]
            moved = (self.rows[rows] @ push).reshape(bend.shape) + starts
            if self.curve is softmax:
                moved -= (bend * moved).sum(-1, keepdims=True)
            return self.pull(rows, bend * moved)

        return self.gathered(work, direction) + self.penalised(direction)


def minimise(problems: Problems) -> Float[np.ndarray, "p w e"]:
    """The weights at each problem's optimum."""
    count, width = problems.wanted.shape[1:]
    weights = np.zeros((count, width, problems.rows.shape[1] + 1))
    basis, left = eigenvectors(problems), np.arange(count)
    for _ in range(STEPS):
        part = problems.some(left)
        moved, done = step(part, weights[left], basis)
        weights[left] = moved
        left = left[~done]
        if not len(left):
            return weights
    warnings.warn(
        f"{len(left)} of {count} linear classifiers have not reached their optimum after {STEPS} steps: they are "
        "measured as they are then",
        RuntimeWarning,
        stacklevel=2,
    )
    return weights


def eigenvectors(problems: Problems) -> tuple[Any, Any]:
    """Eigenvalues and -vectors of the mean square of a row; rounding in it costs time, not digits of the result."""
    rows, gram = problems.rows, np.empty((problems.rows.shape[1],) * 2)

    def fill(columns: slice) -> None:
        gram[columns] = rows[:, columns].T @ rows / len(rows)

    parallel.each(fill, parallel.blocks(len(gram), COLUMNS))
    return eigh(gram)


def step(part: Problems, weights: Any, basis: Any) -> tuple[Any, Any]:
    """Weights after a step, and of which problems it was the last."""
    scores = part.scores(weights)
    losses, slopes, bends = part.bent(scores)
    penalised = part.penalised(weights)
    gradient = part.gathered(lambda rows: part.pull(rows, slopes[rows]), weights) + penalised
    own = bends * (1 - bends) if part.curve is softmax else bends
    condition = conditioner(part, own.sum(0, dtype=np.float64), basis)
    direction = conjugate(part, bends, gradient, condition)
    gain, objective = -dots(gradient, direction) / 2, losses + dots(weights, penalised) / 2
    done = gain <= TOLERANCE * objective
    return weights + length(part, scores, weights, direction)[:, None, None] * direction, done


def dots(left: Any, right: Any) -> Any:
    return (left * right).sum((1, 2))


def conditioner(part: Problems, curvature: Any, basis: Any) -> Callable[[Any], Any]:
    """Divides by what the Hessian would be were all rows curved alike."""
    values, vectors = basis
    curved = part.strengths[:, None] * np.maximum(curvature, 1e-3)
    level = (part.scale**2).mean(1)
    divisor = level[:, None, None] + curved[..., None] * np.maximum(values, 0)

    def plain(gradient: Any) -> Any:
        turned = gradient[..., :-1] @ vectors / divisor
        made = np.concatenate([turned @ vectors.T, gradient[..., -1:] / curved[..., None]], -1)
        if part.curve is softmax:  # what all classes share moves no probability, and is 0 at the optimum
            made -= made.mean(1, keepdims=True)
        return made

    if not part.penalty:
        return plain
    along = np.concatenate([part.shift, np.ones((len(part.shift), 1))], 1)[:, None]
    bent = plain(along.repeat(curvature.shape[1], 1))
    share = part.penalty * bent / (1 + part.penalty * (along * bent).sum(-1, keepdims=True))

    def condition(gradient: Any) -> Any:
        made = plain(gradient)
        return made - share * (along * made).sum(-1, keepdims=True)

    return condition


def conjugate(part: Problems, bends: Any, gradient: Any, condition: Callable[[Any], Any]) -> Any:
    """The step of Newton, to a tenth."""
    direction, rest = np.zeros_like(gradient), -gradient
    along = condition(rest)
    size = dots(rest, along)
    enough = 0.01 * size
    for _ in range(PRODUCTS):
        product = part.product(bends, along)
        bent = dots(along, product)
        going = (size > enough) & (bent > 0)
        if not going.any():
            break
        share = np.where(going, size / np.where(bent > 0, bent, 1), 0)[:, None, None]
        direction += share * along
        rest -= share * product
        conditioned = condition(rest)
        before, size = size, dots(rest, conditioned)
        along = conditioned + (size / np.where(before > 0, before, 1))[:, None, None] * along
    return direction


def length(part: Problems, scores: Any, weights: Any, direction: Any) -> Any:
    """How far to go: where each convex problem's slope along the direction is a tenth of what it was."""
    moved = part.scores(direction)
    penalised = part.penalised(direction)
    first, growth = (dots(penalised, other) for other in (weights, direction))

    def slope(lengths: Any) -> Any:
        def work(rows: slice) -> Any:
            there = scores[rows] + lengths.astype(np.float32)[:, None] * moved[rows]
            slopes = part.curve(there, part.wanted[rows])[1] * part.inside[rows, :, None]
            return (slopes * moved[rows]).sum((0, 2), dtype=np.float64)

        return part.strengths * sum(parallel.each(work, part.blocks())) + first + lengths * growth

    begin = np.abs(slope(np.zeros(len(first))))
    low, high, now = np.zeros(len(first)), np.full(len(first), np.inf), np.ones(len(first))
    for _ in range(30):
        slope_now = slope(now)
        far = slope_now > 0.1 * begin
        if not far.any():
            break
        low, high = np.where(far, low, now), np.where(far, now, high)
        now = np.where(far, (low + high) / 2, now)
    return now
