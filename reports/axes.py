"""What each axis of a section explains of its scores, and each two of them together."""

from typing import Any

import pandas as pd

from reports.compare import Comparisons, scores
from reports.load import Results
from reports.rows import rows_of, shown_values
from reports.statistics import effects, levels
from reports.text import symbol


def explained(section: dict[str, Any], compared: Comparisons, results: Results) -> dict[str, pd.DataFrame]:
    """Of each tested value; nothing where the section is no grid of two axes or more, or is not ranked."""
    rows = [row for row in rows_of(section, shown_values(section, results), results) if row["axes"]]
    shared = [name for name in (rows[0]["axes"] if rows else {}) if all(name in row["axes"] for row in rows)]
    factors = [name for name in shared if len({str(row["axes"][name]) for row in rows}) > 1]
    values = dict.fromkeys(compared.frame.loc[compared.frame["tested"], "value"])
    if not compared.ranked or len(factors) < 2 or len({row["data"] for row in rows}) > 1:
        return {}
    found = {value: effects(tidy(rows, factors, value, results), factors, value) for value in values}
    return {
        value: frame.assign(shown=[" × ".join(map(symbol, str(one).split(" × "))) for one in frame["effect"]])
        for value, frame in found.items()
        if frame is not None and len(frame)
    }


def level_means(section: dict[str, Any], found: dict[str, pd.DataFrame], results: Results) -> dict[str, pd.DataFrame]:
    """Of each explained value, the mean of every level of an axis over the others, with its interval."""
    rows = [row for row in rows_of(section, shown_values(section, results), results) if row["axes"]]
    means = {}
    for value, frame in found.items():
        factors = [one for one in frame["effect"] if " × " not in one]
        known = tidy(rows, factors, value, results)
        parts = [levels(known, factors, factor, value).assign(axis=symbol(factor)) for factor in factors]
        means[value] = pd.concat(parts, ignore_index=True)
    return means


def tidy(rows: list[dict[str, Any]], factors: list[str], value: str, results: Results) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {name: str(row["axes"][name]) for name in factors} | {"seed": seed, value: score}
            for row in rows
            for seed, score in zip(row["seeds"], scores(row, value, results), strict=True)
        ]
    )
