"""What each axis of a section explains of its scores, and each two of them together."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from contrastive.runs.recorded import RecordedSection
from reports.compare import Comparisons
from reports.load import Results
from reports.markdown import symbol
from reports.rows import ShownRow, rows_of, shown_values
from reports.seed_values import applies, seed_scores
from reports.statistics import effects, interaction_of_texts, levels

VECTORS = "embedding"  # the axis of which vectors are measured, and of what was done to them


@dataclass(frozen=True)
class Explanation:
    """Values at each seed and the axes that they are explained by."""

    values: pd.DataFrame
    factors: list[str]
    from_texts: float


def explained(section: RecordedSection, compared: Comparisons, results: Results) -> dict[str, pd.DataFrame]:
    """Of each tested value."""
    rows = explicable(section, compared, results)
    values = dict.fromkeys(compared.frame.loc[compared.frame["tested"], "value"])
    frames = {}
    for value in values:
        tables = [
            effects(part.values, part.factors, value, from_texts=part.from_texts)
            for part in explanations(rows, value, compared, results)
        ]
        terms = sum(map(len, tables))
        shared = [  # the terms and the values share one level, that of effects() by its own terms already
            table.assign(p=np.minimum(1.0, table["p"] * terms / len(table) * len(values)))
            for table in tables
            if len(table)
        ]
        if shared:
            frame = pd.concat(shared, ignore_index=True)
            names = [" × ".join(map(symbol, str(effect).split(" × "))) for effect in frame["effect"]]
            frames[value] = frame.assign(shown=names)
    return frames


def level_means(
    section: RecordedSection, frames: dict[str, pd.DataFrame], compared: Comparisons, results: Results
) -> dict[str, pd.DataFrame]:
    """Of each explained value, the mean of every level of an axis over the others, with the interval of its distance
    from the mean of the levels."""
    rows, means = explicable(section, compared, results), {}
    for value, frame in frames.items():
        parts = [
            levels(part.values, part.factors, factor, value, from_texts=part.from_texts).assign(axis=symbol(factor))
            for part in explanations(rows, value, compared, results)
            for factor in part.factors
            if factor in set(frame["effect"])
        ]
        means[value] = pd.concat(parts, ignore_index=True)
    return means


def explicable(section: RecordedSection, compared: Comparisons, results: Results) -> list[ShownRow]:
    """Its rows; none where it is not ranked, its rows are of other data or of unequal seeds, or it stops by itself:
    nothing shares the level of its effects over the looks."""
    alike = len({(row.data, tuple(row.seeds)) for row in section.rows}) == 1
    if not (compared.ranked and alike and compared.most_seeds is None):
        return []
    return rows_of(section, shown_values(section, results), results)


def explanations(rows: list[ShownRow], value: str, compared: Comparisons, results: Results) -> list[Explanation]:
    """By the axes of the grid, and by the vectors that are measured."""
    made = [explain(rows, value, compared, results) for explain in (of_axes, of_vectors)]
    return [part for part in made if part is not None]


def of_axes(rows: list[ShownRow], value: str, compared: Comparisons, results: Results) -> Explanation | None:
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
    return Explanation(pd.DataFrame(values), factors, noise_of_texts([by_text([row], value, compared) for row in grid]))


def of_vectors(rows: list[ShownRow], value: str, compared: Comparisons, results: Results) -> Explanation | None:
    """The kinds of vectors, each by its mean over the configurations: all kinds are measured on the same cells, so
    that seeds × kinds is what may differ by chance."""
    kinds: dict[str, list[ShownRow]] = {}
    for row in rows:
        if applies(row, value, results):
            kinds.setdefault(str(row.axes.get(VECTORS)), []).append(row)
    if len(kinds) < 2 or all(len(own) == 1 for own in kinds.values()):
        return None  # of one configuration, the comparisons say it
    means = {kind: np.mean([seed_scores(row, value, results) for row in own], 0) for kind, own in kinds.items()}
    frames = [pd.DataFrame({VECTORS: kind, "seed": rows[0].seeds, value: numbers}) for kind, numbers in means.items()]
    noise = noise_of_texts([by_text(own, value, compared) for own in kinds.values()])
    return Explanation(pd.concat(frames, ignore_index=True), [VECTORS], noise)


def by_text(rows: list[ShownRow], value: str, compared: Comparisons) -> np.ndarray | None:
    """What each text adds at each seed, the mean of some rows; None where one of them does not say it."""
    measured = [compared.measured.get((row.number, value)) for row in rows]
    each = [held.each for held in measured if held is not None and held.each is not None]
    if len(each) < len(rows):
        return None
    return each[0] if len(rows) == 1 else np.mean(np.stack(each), 0, dtype=float)  # each may have millions


def noise_of_texts(each: list[np.ndarray | None]) -> float:
    """What other texts would change."""
    parts = [part for part in each if part is not None]
    return interaction_of_texts(np.stack(parts)) if len(parts) == len(each) else 0.0
