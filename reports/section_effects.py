"""What each axis of a section explains of its scores, and each two of them together."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from reports.compare import Section
from reports.load import Results
from reports.markdown import symbol
from reports.rows import Row, applies, seed_scores
from reports.statistics import effects, interaction_of_texts, levels

VECTORS = "embedding"  # the axis of which vectors are measured, and of what was done to them


@dataclass(frozen=True)
class Explanation:
    """Values at each seed and the axes that they are explained by."""

    values: pd.DataFrame
    factors: list[str]
    from_texts: float


@dataclass(frozen=True)
class Effect:
    """What an axis, or two of them together, explain of a score."""

    value: str
    factors: tuple[str, ...]
    df: int
    f: float
    p: float
    share: float  # of the variance


@dataclass(frozen=True)
class Level:
    """One level of an axis: its mean over the others, and the interval of its distance from the mean of the levels."""

    value: str
    axis: str
    name: str
    mean: float
    half_width: float


def explained(section: Section, results: Results) -> list[Effect]:
    """Of each tested score."""
    rows, found = rows_for_anova(section), list[Effect]()
    for value in section.tested:
        tables = [
            effects(part.values, part.factors, value, from_texts=part.from_texts)
            for part in explanations(rows, value, section, results)
        ]
        terms = sum(map(len, tables))
        for table in tables:  # the terms and the scores share one level, that of effects() by its own terms already
            for name, df, f, p, share in table[["effect", "df", "F", "p", "share"]].to_numpy():
                shared = min(1.0, p * terms / len(table) * len(section.tested))
                if not math.isnan(f):  # of axes that change together nothing can be told apart
                    found.append(Effect(value, tuple(name.split(" × ")), int(df), f, shared, share))
    return found


def level_means(found: list[Effect], section: Section, results: Results) -> list[Level]:
    """Of each explained score, every level of each axis."""
    rows, means = rows_for_anova(section), list[Level]()
    for value in dict.fromkeys(effect.value for effect in found):
        alone = {effect.factors for effect in found if effect.value == value}
        for part in explanations(rows, value, section, results):
            for factor in (name for name in part.factors if (name,) in alone):
                table = levels(part.values, part.factors, factor, value, from_texts=part.from_texts)
                columns = table[["level", "mean", "half_width"]].to_numpy()
                means += [Level(value, symbol(factor), *line) for line in columns]
    return means


def rows_for_anova(section: Section) -> list[Row]:
    """Its rows; none where it is not ranked, its rows are of other data or of unequal seeds, or it stops by itself:
    nothing shares the level of its effects over the looks."""
    alike = len({(row.data, tuple(row.seeds)) for row in section.recorded.rows}) == 1
    return section.rows if section.ranked and alike and section.most_seeds is None else []


def explanations(rows: list[Row], value: str, section: Section, results: Results) -> list[Explanation]:
    """By the axes of the grid, and by the vectors that are measured."""
    made = [explain(rows, value, section, results) for explain in (of_axes, of_vectors)]
    return [part for part in made if part is not None]


def of_axes(rows: list[Row], value: str, section: Section, results: Results) -> Explanation | None:
    """A grid of two axes or more, by the vectors that trained."""
    grid = [replace(row, axes=row.recorded.axes) for row in rows if not row.variant and row.recorded.axes]
    shared = [name for name in (grid[0].axes if grid else {}) if all(name in row.axes for row in grid)]
    factors = [name for name in shared if len({str(row.axes[name]) for row in grid}) > 1]
    if len(factors) < 2:
        return None
    values = [
        {name: str(row.axes[name]) for name in factors} | {"seed": seed, value: score}
        for row in grid
        for seed, score in zip(row.seeds, seed_scores(row, value, results), strict=True)
    ]
    return Explanation(pd.DataFrame(values), factors, noise_of_texts([by_text([row], value, section) for row in grid]))


def of_vectors(rows: list[Row], value: str, section: Section, results: Results) -> Explanation | None:
    """The kinds of vectors, each by its mean over the configurations: all kinds are measured on the same cells, so
    that seeds × kinds is what may differ by chance."""
    kinds: dict[str, list[Row]] = {}
    for row in rows:
        if applies(row, value, results):
            kinds.setdefault(str(row.axes.get(VECTORS)), []).append(row)
    if len(kinds) < 2 or all(len(own) == 1 for own in kinds.values()):
        return None  # of one configuration, the comparisons say it
    means = {kind: np.mean([seed_scores(row, value, results) for row in own], 0) for kind, own in kinds.items()}
    frames = [pd.DataFrame({VECTORS: kind, "seed": rows[0].seeds, value: numbers}) for kind, numbers in means.items()]
    noise = noise_of_texts([by_text(own, value, section) for own in kinds.values()])
    return Explanation(pd.concat(frames, ignore_index=True), [VECTORS], noise)


def by_text(rows: list[Row], value: str, section: Section) -> np.ndarray | None:
    """What each text adds at each seed, the mean of some rows; None where one of them does not say it."""
    measured = [section.measured.get((row.number, value)) for row in rows]
    each = [held.each for held in measured if held is not None and held.each is not None]
    if len(each) < len(rows):
        return None
    return each[0] if len(rows) == 1 else np.mean(np.stack(each), 0, dtype=float)  # each may have millions


def noise_of_texts(each: list[np.ndarray | None]) -> float:
    """What other texts would change."""
    parts = [part for part in each if part is not None]
    return interaction_of_texts(np.stack(parts)) if len(parts) == len(each) else 0.0
