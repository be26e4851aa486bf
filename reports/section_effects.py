"""Analysis of variance of a section: main effects and interactions of its axes."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd

from reports.compare import Section
from reports.rows import Row, seed_scores
from reports.statistics.effects import Effect, effects, interaction_of_texts
from reports.study import Results


def explained(section: Section, results: Results) -> list[Effect]:
    """Return the effects on each tested score."""
    rows, adjusted = rows_for_anova(section), list[Effect]()
    for value in section.tested:
        for effect in effects_of_axes(rows, value, section, results):
            if not math.isnan(effect.f):  # axes that change together cannot be separated
                adjusted.append(replace(effect, p=min(1.0, effect.p * len(section.tested))))
    return adjusted


def rows_for_anova(section: Section) -> list[Row]:
    """Return the rows to analyse; none if the section is not ranked, its rows differ in data or seeds, or its study
    adds seeds: p-values of effects are not adjusted for several looks."""
    comparable = len({(row.data, tuple(row.seeds)) for row in section.recorded.rows}) == 1
    return section.rows if section.ranked and section.paired and comparable and section.most_seeds is None else []


def effects_of_axes(rows: list[Row], value: str, section: Section, results: Results) -> list[Effect]:
    """Return the effects on a score of trained vectors; none if fewer than two axes vary."""
    grid = [replace(row, axes=row.recorded.axes) for row in rows if not row.variant and row.recorded.axes]
    shared = [name for name in (grid[0].axes if grid else {}) if all(name in row.axes for row in grid)]
    factors = [name for name in shared if len({str(row.axes[name]) for row in grid}) > 1]
    if len(factors) < 2:
        return []
    values = [
        {name: str(row.axes[name]) for name in factors} | {"seed": seed, value: score}
        for row in grid
        for seed, score in zip(row.seeds, seed_scores(row, value, results), strict=True)
    ]
    return effects(pd.DataFrame(values), factors, value, noise_of_texts(grid, value, section))


def noise_of_texts(rows: list[Row], value: str, section: Section) -> float:
    """Return the mean square that other test texts would add; 0 if values for each text are missing."""
    measured = [section.measured.get((row.number, value)) for row in rows]
    known = [values.per_text for values in measured if values is not None and values.per_text is not None]
    return interaction_of_texts(np.stack(known)) if len(known) == len(rows) else 0.0
