"""Which axes of a grid matter: type II analysis of variance with the seeds as blocks.

The noise is that of all comparisons: the residual of rows × seeds, and the texts' part. The p of an axis is that of its
levels against each other (Tukey and Kramer), so an axis whose levels are all tied is not significant; the p of an
interaction is that of F. Both are multiplied by the number of terms (Bonferroni).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from jaxtyping import Float, Num
from numpy import ndarray
from scipy import special

Term = tuple[str, ...]
BLOCK: Term = ("seed",)
ROUNDING = 1e-12  # a residual below this share of the total sum of squares counts as 0
BLURRED = 1e-6  # an unidentified part of a level below this is rounding
RANK = 1e-10  # eigenvalues below this share of the number of values: the columns depend on others


@dataclass(frozen=True)
class Effect:
    """The main effect of an axis, or the interaction of two, on a score."""

    value: str
    factors: Term
    df: int
    f: float  # nan: the term cannot be separated from the others
    p: float
    share: float  # share of variance explained


def effects(frame: pd.DataFrame, factors: Sequence[str], value: str, from_texts: float = 0.0) -> list[Effect]:
    """Return main effects and two-way interactions; none without a residual, which tells them from noise.

    As in type II, each term is compared with the model of all terms that do not contain it. Degrees of freedom are
    differences of ranks, so cells may be missing. `from_texts` is what the choice of the test texts adds to the mean
    square of a term (`interaction_of_texts`); F keeps the residual's degrees of freedom, which are fewer.
    """
    if not np.isfinite(frame[value].to_numpy(float)).any():
        return []
    grid = Grid(frame, factors, value)
    rest, freedom = grid.residual(grid.terms)
    if freedom <= 0 or rest <= ROUNDING * grid.total:
        return []
    noise, tested = rest / freedom + from_texts, list[Effect]()
    for term in grid.terms:
        others = [t for t in grid.terms if not set(term) <= set(t)]
        without, more = grid.residual(others)
        with_it, fewer = grid.residual([*others, term])
        df, size = more - fewer, max(without - with_it, 0.0)
        f = size / df / noise if df else np.nan
        by_levels = len(term) == 1 and df
        p = p_of_levels(grid, term[0], noise, freedom) if by_levels else float(special.fdtrc(df, freedom, f))
        tested.append(Effect(value, term, df, f, float(np.minimum(1.0, p * len(grid.terms))), size / grid.total))
    return tested


def p_of_levels(grid: "Grid", factor: str, noise: float, freedom: int) -> float:
    """Return the p of the largest studentised difference between levels of an axis (Tukey and Kramer).

    Levels that differ only together with another axis are not compared.
    """
    _, means, inverse, unknown = balanced_means(grid, factor)
    variances = np.diag(inverse)
    differences = np.abs(np.subtract.outer(means, means))
    squared = np.add.outer(variances, variances) - 2 * inverse
    blurred = np.abs(unknown[:, None] - unknown).max(2) > BLURRED
    largest = float(np.max(differences / np.sqrt(np.where(blurred | (squared <= 0), np.inf, squared) * noise)))
    from scipy.stats import studentized_range  # imported here: it takes 1.5 s, and nothing else needs scipy.stats

    return float(studentized_range.sf(np.sqrt(2) * largest, len(means), freedom))


def interaction_of_texts(each: Num[ndarray, "k s n"]) -> float:
    """Return the texts' part of the differences between k configurations, as a mean square of their values.

    It is configuration × text (the texts are the same at all seeds) less the residual of each text at each seed. Seed ×
    text over all configurations cancels in every difference: subtracting it too made the texts' part too small.
    """
    rows, seeds, texts = each.shape
    if rows < 2 or texts < 2:
        return 0.0
    by_text = each.mean(1, dtype=float)
    interaction = by_text - by_text.mean(0) - by_text.mean(1, keepdims=True) + by_text.mean()
    over_rows = each.mean(0, dtype=float)
    rest = 0.0
    for values in each:  # one configuration at a time: each may have millions of values
        deviations = values - over_rows
        residual = deviations - deviations.mean(0) - deviations.mean(1, keepdims=True) + deviations.mean()
        rest += float(np.square(residual).sum())
    interaction_square = seeds * float(np.square(interaction).sum()) / ((rows - 1) * (texts - 1))
    rest_square = rest / ((rows - 1) * (seeds - 1) * (texts - 1)) if seeds > 1 else 0.0
    return max(0.0, interaction_square - rest_square) / texts


def balanced_means(
    grid: "Grid", factor: str
) -> tuple[list[str], Float[ndarray, " l"], Float[ndarray, "l l"], Float[ndarray, "l columns"]]:
    """Return an axis's levels, their means balanced over the other axes, the covariance of the means by the variance
    of a value, and each level's unidentified part: where it differs between two levels, their difference is unknown."""
    names, codes = np.unique(grid.frame[factor].astype(str), return_inverse=True)
    others = np.hstack([part for term, part in grid.parts.items() if len(term) == 1 and term != (factor,)])
    x = np.hstack([np.eye(len(names))[codes], others - others.mean(0)])
    products = x.T @ x
    inverse = np.linalg.pinv(products, rcond=RANK, hermitian=True)
    unknown = np.eye(len(products)) - inverse @ products
    count = len(names)
    return names.tolist(), (inverse @ x.T @ grid.y)[:count], inverse[:count, :count], unknown[:count]


class Grid:
    """The finite values, with one indicator column per level of each term; the columns may depend on each other."""

    def __init__(self, frame: pd.DataFrame, factors: Sequence[str], value: str) -> None:
        self.frame = frame[np.isfinite(frame[value].to_numpy(float))]
        self.y = self.frame[value].to_numpy(float)
        mains: list[Term] = [(name,) for name in factors if self.frame[name].nunique() > 1]
        self.terms: list[Term] = [*mains, *(first + other for first, other in combinations(mains, 2))]
        codes: dict[Term, ndarray] = {term: pd.factorize(self.frame[term[0]])[0] for term in [BLOCK, *mains]}
        for first, other in combinations(mains, 2):
            codes[first + other] = pd.factorize(codes[first] * len(self.y) + codes[other])[0]
        self.parts = {term: np.eye(numbers.max(initial=-1) + 1)[numbers] for term, numbers in codes.items()}
        centred = np.hstack([part - part.mean(0) for part in self.parts.values()])
        self.total = float(((self.y - self.y.mean()) ** 2).sum())
        self.products, self.onto = centred.T @ centred, centred.T @ (self.y - self.y.mean())
        ends = np.cumsum([part.shape[1] for part in self.parts.values()])
        self.columns = {
            t: np.arange(end - self.parts[t].shape[1], end) for t, end in zip(self.parts, ends, strict=True)
        }

    def residual(self, terms: Sequence[Term]) -> tuple[float, int]:
        """Return the residual sum of squares of the model of blocks and terms, and its degrees of freedom."""
        chosen = np.concatenate([self.columns[term] for term in [BLOCK, *terms]])
        sizes, directions = np.linalg.eigh(self.products[np.ix_(chosen, chosen)])
        kept = sizes > RANK * len(self.y)
        explained = ((directions[:, kept].T @ self.onto[chosen]) ** 2 / sizes[kept]).sum()
        return max(self.total - float(explained), 0.0), len(self.y) - 1 - int(kept.sum())
