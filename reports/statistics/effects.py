"""Which axes of a grid matter: type II analysis of variance with the seeds as blocks.

The noise is the one of all comparisons: the residual of rows × seeds, and the part of the texts. The p of an axis is
that of its levels against each other (Tukey and Kramer), so that no axis matters whose levels are all tied; that of two
axes together is of F. Both are multiplied by the number of terms that were looked at.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from jaxtyping import Float, Num
from numpy import ndarray
from scipy import special

from reports.messages import Said, _
from reports.statistics.summary import interval_quantile

Term = tuple[str, ...]
NO_RESIDUAL = _("every value is needed to describe the effects, and none is left to tell noise from them")

NO_FACTOR = _("no axis has two values")
COLUMNS = ["effect", "df", "F", "p", "share"]
ROUNDING = 1e-12  # of the sum of squares: less of it is none
BLURRED = 1e-6  # of a level: less of it is rounding
RANK = 1e-10  # of the number of values: columns that add less are those of others


def effects(
    frame: pd.DataFrame, factors: Sequence[str], value: str, block: str = "seed", from_texts: float = 0.0
) -> pd.DataFrame:
    """A row a main effect and a two-way interaction; empty, with `attrs["reason"]`, where there is no residual.

    Each term is compared with the model of all terms that do not contain it, as type II has it, by ranks, so that
    cells may be missing. `from_texts` is what the choice of the test texts adds to the mean square of a term
    (`interaction_of_texts`); the residual's degrees of freedom are kept, which are the fewer ones.
    """
    if not np.isfinite(frame[value].to_numpy(float)).any():
        return no_effects(NO_FACTOR)
    grid = Grid(frame, factors, value, block)
    rest, freedom = grid.residual(grid.terms)
    if freedom <= 0 or not grid.terms or rest <= ROUNDING * grid.total:
        return no_effects(NO_RESIDUAL if grid.terms else NO_FACTOR)
    noise = rest / freedom + from_texts
    rows = []
    for term in grid.terms:
        others = [t for t in grid.terms if not set(term) <= set(t)]
        without, more = grid.residual(others)
        with_it, fewer = grid.residual([*others, term])
        df, size = more - fewer, max(without - with_it, 0.0)
        f = size / df / noise if df else np.nan  # nan: it cannot be told from the others
        p = (
            float(special.fdtrc(df, freedom, f))
            if len(term) > 1 or not df
            else p_of_levels(grid, term[0], noise, freedom)
        )
        rows.append((" × ".join(term), df, f, p, size / grid.total))
    table = pd.DataFrame(rows, columns=COLUMNS)
    table["p"] = np.minimum(1.0, table["p"] * len(table))
    return table


def p_of_levels(grid: "Grid", factor: str, noise: float, freedom: int) -> float:
    """Of the largest difference between the levels of an axis, in units of its error; levels that differ only
    together with another axis are not compared."""
    _, means, inverse, unknown = balanced_means(grid, factor)
    variances = np.diag(inverse)
    apart = np.abs(np.subtract.outer(means, means))
    squared = np.add.outer(variances, variances) - 2 * inverse
    blurred = np.abs(unknown[:, None] - unknown).max(2) > BLURRED
    largest = float(np.max(apart / np.sqrt(np.where(blurred | (squared <= 0), np.inf, squared) * noise)))
    from scipy.stats import studentized_range  # a second and a half, where nothing else of it is read

    return float(studentized_range.sf(np.sqrt(2) * largest, len(means), freedom))


def interaction_of_texts(each: Num[ndarray, "k s n"]) -> float:
    """What other test texts would change of the differences between k configurations, as a mean square of their values.

    The same texts at all seeds: configuration × text, less what is left to each text at each seed. What a seed does to
    a text of all configurations is in no difference, and no part of that: with it the texts' part was too small.
    """
    rows, seeds, texts = each.shape
    if rows < 2 or texts < 2:
        return 0.0
    by_text = each.mean(1, dtype=float)
    both = by_text - by_text.mean(0) - by_text.mean(1, keepdims=True) + by_text.mean()
    of_all = each.mean(0, dtype=float)
    rest = 0.0
    for values in each:  # one at a time: each may have millions
        apart = values - of_all
        own = apart - apart.mean(0) - apart.mean(1, keepdims=True) + apart.mean()
        rest += float(np.square(own).sum())
    of_both = seeds * float(np.square(both).sum()) / ((rows - 1) * (texts - 1))
    of_rest = rest / ((rows - 1) * (seeds - 1) * (texts - 1)) if seeds > 1 else 0.0
    return max(0.0, of_both - of_rest) / texts


def no_effects(reason: Said) -> pd.DataFrame:
    empty = pd.DataFrame(columns=COLUMNS)
    empty.attrs["reason"] = reason
    return empty


def levels(
    frame: pd.DataFrame, factors: Sequence[str], factor: str, value: str, block: str = "seed", from_texts: float = 0.0
) -> pd.DataFrame:
    """A row a level of one factor: its mean, balanced over the others, and the interval of its deviation from all.

    The deviation is from the mean of the levels, the noise what main effects and interactions leave, as in `effects`.
    """
    grid = Grid(frame, factors, value, block)
    rest, freedom = grid.residual(grid.terms)
    names, means, inverse, _ = balanced_means(grid, factor)
    contrast = np.eye(len(names)) - 1 / len(names)
    scale = np.sqrt(np.diag(contrast @ inverse @ contrast))
    width = interval_quantile(freedom) * np.sqrt(rest / freedom + from_texts) if freedom else np.nan
    counts = grid.frame[factor].astype(str).value_counts().reindex(names).to_numpy()
    return pd.DataFrame({"level": names, "mean": means, "half_width": width * scale, "n": counts})


def balanced_means(
    grid: "Grid", factor: str
) -> tuple[list[str], Float[ndarray, " l"], Float[ndarray, "l l"], Float[ndarray, "l columns"]]:
    """The levels of an axis, their means balanced over the others, the variances of these by that of a value, and what
    of each level the values do not tell: where it differs between two of them, nothing says how far they are apart."""
    names, codes = np.unique(grid.frame[factor].astype(str), return_inverse=True)
    others = np.hstack([part for term, part in grid.parts.items() if len(term) == 1 and term != (factor,)])
    x = np.hstack([np.eye(len(names))[codes], others - others.mean(0)])
    products = x.T @ x
    inverse = np.linalg.pinv(products, rcond=RANK, hermitian=True)
    unknown = np.eye(len(products)) - inverse @ products
    count = len(names)
    return names.tolist(), (inverse @ x.T @ grid.y)[:count], inverse[:count, :count], unknown[:count]


class Grid:
    """The values that there are, and a column a level of each term: more than are needed, what they span counts."""

    def __init__(self, frame: pd.DataFrame, factors: Sequence[str], value: str, block: str) -> None:
        self.frame = frame[np.isfinite(frame[value].to_numpy(float))]
        self.y = self.frame[value].to_numpy(float)
        mains: list[Term] = [(name,) for name in factors if self.frame[name].nunique() > 1]
        self.terms: list[Term] = [*mains, *(first + other for first, other in combinations(mains, 2))]
        codes: dict[Term, ndarray] = {t: pd.factorize(self.frame[t[0]])[0] for t in [(block,), *mains]}
        for first, other in combinations(mains, 2):
            codes[first + other] = pd.factorize(codes[first] * len(self.y) + codes[other])[0]
        self.block: Term = (block,)
        self.parts = {term: np.eye(numbers.max(initial=-1) + 1)[numbers] for term, numbers in codes.items()}
        centred = np.hstack([part - part.mean(0) for part in self.parts.values()])
        self.total = float(((self.y - self.y.mean()) ** 2).sum())
        self.products, self.onto = centred.T @ centred, centred.T @ (self.y - self.y.mean())
        ends = np.cumsum([part.shape[1] for part in self.parts.values()])
        self.columns = {
            t: np.arange(end - self.parts[t].shape[1], end) for t, end in zip(self.parts, ends, strict=True)
        }

    def residual(self, terms: Sequence[Term]) -> tuple[float, int]:
        """The sum of squares that blocks and terms leave, and its degrees of freedom."""
        chosen = np.concatenate([self.columns[term] for term in [self.block, *terms]])
        sizes, directions = np.linalg.eigh(self.products[np.ix_(chosen, chosen)])
        kept = sizes > RANK * len(self.y)
        explained = ((directions[:, kept].T @ self.onto[chosen]) ** 2 / sizes[kept]).sum()
        return max(self.total - float(explained), 0.0), len(self.y) - 1 - int(kept.sum())
