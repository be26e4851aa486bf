"""Which axes of a grid matter: type II analysis of variance with the seeds as blocks."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy import ndarray
from scipy import stats

from reports.statistics.multiple import holm
from reports.statistics.summary import CONFIDENCE
from reports.words import Words

Term = tuple[str, ...]
NO_RESIDUAL = Words(
    "every value is needed to describe the effects, and none is left to tell noise from them",
    "所有数值都用于描述效应，没有剩余数值可以区分噪声",
)


def effects(frame: pd.DataFrame, factors: Sequence[str], value: str, block: str = "seed") -> pd.DataFrame:
    """A row a main effect and a two-way interaction; empty, with `attrs["reason"]`, where there is no residual."""
    frame = frame[np.isfinite(frame[value])]
    terms: list[Term] = [(f,) for f in factors if frame[f].nunique() > 1]
    terms += [(a, b) for (a,), (b,) in combinations(terms, 2)]
    y = frame[value].to_numpy(float)
    rest, freedom = residual(frame, [(block,), *terms], y)
    columns = ["effect", "df", "F", "p", "p_holm", "share"]
    if freedom == 0 or not terms:
        empty = pd.DataFrame(columns=columns)
        empty.attrs["reason"] = NO_RESIDUAL
        return empty
    total = float(((y - y.mean()) ** 2).sum())
    rows = []
    for term in terms:
        others = [t for t in terms if not set(term) <= set(t)]
        without, more = residual(frame, [(block,), *others], y)
        with_it, fewer = residual(frame, [(block,), *others, term], y)
        df, size = more - fewer, max(without - with_it, 0.0)
        f = size / df / (rest / freedom) if df and rest > 0 else float("nan")
        rows.append(
            (" × ".join(term), df, f, float(stats.f.sf(f, df, freedom)), np.nan, size / total if total else 0.0)
        )
    found = pd.DataFrame(rows, columns=columns)
    found["p_holm"] = holm(found["p"].to_numpy(float))
    return found


def levels(frame: pd.DataFrame, factors: Sequence[str], factor: str, value: str, block: str = "seed") -> pd.DataFrame:
    """A row a level of one factor: its mean, balanced over the others, and how far its deviation from all is known."""
    frame = frame[np.isfinite(frame[value])]
    y = frame[value].to_numpy(float)
    mains: list[Term] = [(f,) for f in factors if frame[f].nunique() > 1]
    pairs: list[Term] = [(a, b) for (a,), (b,) in combinations(mains, 2)]
    rest, freedom = residual(frame, [(block,), *mains, *pairs], y)
    others = design(frame, [(block,), *[m for m in mains if m != (factor,)]])[:, 1:]
    names, codes = np.unique(frame[factor].astype(str), return_inverse=True)
    own = np.eye(len(names))[codes]
    x = np.hstack([own, others - others.mean(0)])
    inverse = np.linalg.pinv(x.T @ x)
    means = (inverse @ x.T @ y)[: len(names)]
    contrast = np.eye(len(names)) - 1 / len(names)
    errors = np.sqrt(np.diag(contrast @ inverse[: len(names), : len(names)] @ contrast.T) * rest / max(freedom, 1))
    half = stats.t.ppf((1 + CONFIDENCE) / 2, freedom) * errors if freedom else np.full(len(names), np.nan)
    return pd.DataFrame({"level": names, "mean": means, "half_width": half, "n": np.bincount(codes)})


def residual(frame: pd.DataFrame, terms: Sequence[Term], y: Float[ndarray, " n"]) -> tuple[float, int]:
    x = design(frame, terms)
    solution, _, rank, _ = np.linalg.lstsq(x, y, rcond=None)
    return float(((y - x @ solution) ** 2).sum()), len(y) - int(rank)


def design(frame: pd.DataFrame, terms: Sequence[Term]) -> Float[ndarray, "n d"]:
    """A column of ones, and one a level of each term: more than are needed, since only what they span counts."""
    parts = [np.ones((len(frame), 1))]
    for term in terms:
        codes = frame.groupby(list(term), observed=True, sort=True).ngroup().to_numpy()
        parts.append(np.eye(codes.max() + 1)[codes])
    return np.hstack(parts)
