"""Configurations over several data sets: one number each, that no single data set decides."""

import numpy as np

from contrastive.config.cell import Data
from reports.compare import GENERATOR, Section
from reports.load import Results
from reports.markdown import heading, symbol, unit
from reports.messages import _
from reports.rows import Row
from reports.seed_values import seed_scores
from reports.statistics import interquartile_mean
from reports.tables import Entry, Table, head

ITSELF = ("loss", "view", "level", "tune", "embedding")  # shown without their name


def across(section: Section, results: Results) -> list[Table]:
    """A table a tested value, where a section holds each configuration on the same data sets, two of them or more."""
    groups: dict[str, list[Row]] = {}
    for row in section.rows:
        groups.setdefault(configuration(row), []).append(row)
    sets = [sorted(row.data for row in group) for group in groups.values()]
    if len(sets[0] if sets else ()) < 2 or any(names != sets[0] for names in sets) or len(set(sets[0])) < len(sets[0]):
        return []
    return [table for value in section.tested if (table := one_value(value, groups, len(sets[0]), results))]


def one_value(value: str, groups: dict[str, list[Row]], sets: int, results: Results) -> Table | None:
    body = []
    for label, group in groups.items():
        scores = {row.data: seed_scores(row, value, results) for row in group}
        if not all(np.isfinite(values).all() for values in scores.values()):
            return None
        middle, low, high = (unit(value) * each for each in interquartile_mean(scores, seed=GENERATOR))
        interval = f" ({low:.4g}–{high:.4g})" if np.isfinite(low) else ""  # nothing of one seed
        cells = [cell for row in group for cell in row.cells]
        body.append([Entry(label), Entry(f"{middle:.4g}{interval}", middle, cells)])
    heads = [_("Over all data sets"), _("interquartile mean of {value} (95 % interval)", value=head(value))]
    return Table(_("{name} over {sets} data sets", name=heading(value), sets=sets), heads, body)


def configuration(row: Row) -> str:
    """What a row is on whatever data."""
    own = {name: value for name, value in row.axes.items() if name not in Data.model_fields}
    named = [str(value) if name in ITSELF else f"{symbol(name)}={value}" for name, value in own.items()]
    return " · ".join(named) or row.label.partition(" · ")[0]
