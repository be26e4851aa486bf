"""Analysis of variance of a section: main effects and interactions of its axes, and the mean of each level."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from reports.compare import Section
from reports.rows import Row, seed_scores
from reports.statistics.effects import Effect, effects, interaction_of_texts
from reports.study import Results


@dataclass(frozen=True)
class Explanation:
    """Input of an analysis of variance: a value for each seed, and the axes to explain it by."""

    values: pd.DataFrame
    factors: list[str]
    from_texts: float  # mean square that other test texts would add


def explained(section: Section, results: Results) -> list[Effect]:
    """Return the effects on each tested score."""
    rows, adjusted = rows_for_anova(section), list[Effect]()
    for value in section.tested:
        part = explain_by_axes(rows, value, section, results)
        for effect in effects(part.values, part.factors, value, part.from_texts) if part else ():
            if not math.isnan(effect.f):  # axes that change together cannot be separated
                adjusted.append(replace(effect, p=min(1.0, effect.p * len(section.tested))))
    return adjusted


def rows_for_anova(section: Section) -> list[Row]:
    """Return the rows to analyse; none if the section is not ranked, its rows differ in data or seeds, or its study
    adds seeds: p-values of effects are not adjusted for several looks."""
    comparable = len({(row.data, tuple(row.seeds)) for row in section.recorded.rows}) == 1
    return section.rows if section.ranked and section.paired and comparable and section.most_seeds is None else []


def explain_by_axes(rows: list[Row], value: str, section: Section, results: Results) -> Explanation | None:
    """Return the scores of trained vectors by axis and seed; None if fewer than two axes vary."""
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


def by_text(rows: list[Row], value: str, section: Section) -> np.ndarray | None:
    """Average the values for each seed and text over rows; None if a row has no values for texts."""
    measured = [section.measured.get((row.number, value)) for row in rows]
    per_text = [values.per_text for values in measured if values is not None and values.per_text is not None]
    if len(per_text) < len(rows):
        return None
    return per_text[0] if len(rows) == 1 else np.mean(np.stack(per_text), 0, dtype=float)  # may have millions of values


def noise_of_texts(levels_by_text: list[np.ndarray | None]) -> float:
    """Return the mean square that other test texts would add; 0 if values for each text are missing."""
    known = [values for values in levels_by_text if values is not None]
    return interaction_of_texts(np.stack(known)) if len(known) == len(levels_by_text) else 0.0
