"""What a section's numbers say: each configuration against its baseline, and which are tied with the best.

One family of tests for each of the two questions, with Holm's correction over all of it: every configuration against
its baseline × every value of the declared family; every pair of configurations × every value.
"""

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from reports.load import Results
from reports.rows import rows_of
from reports.statistics import (
    Difference,
    all_pairs,
    detectable,
    holm,
    improvement,
    mcnemar,
    paired,
    pooled,
    smallest_p,
    summarise,
    tied,
)

ALPHA = 0.05
POWER = 0.8
GENERATOR = 20250625  # of what is drawn at random; the same in every report
LIMITS = {"accuracy": (0, 1), "f1": (0, 1), "nmi": (0, 1), "ari": (-1, 1), "precision": (0, 1), "map": (0, 1)}
Verdict = Literal["better", "worse", "not shown", "impossible", "baseline", ""]


@dataclass(frozen=True)
class Pairs:
    """Every pair of rows of one value over the same data: differences of the means, p after Holm (nan: no test)."""

    labels: list[str]
    means: Float[np.ndarray, "k k"]
    adjusted: Float[np.ndarray, "k k"]


@dataclass(frozen=True)
class Comparisons:
    """`frame` has a row a (configuration, value); `hypotheses` counts those that were corrected for each other."""

    frame: pd.DataFrame
    pairs: dict[str, Pairs] = field(default_factory=dict)
    detectable: dict[str, float | None] = field(default_factory=dict)
    hypotheses: int = 0
    seeds: int = 0
    ranked: bool = False

    @property
    def smallest_p(self) -> float:
        return smallest_p(self.seeds)

    def tested(self, value: str) -> pd.DataFrame:
        frame = self.frame
        return frame[(frame["value"] == value) & frame["verdict"].isin(["better", "worse", "not shown", "impossible"])]


def compare(section: dict[str, Any], results: Results, may_rank: bool = True) -> Comparisons:
    """`may_rank`: whether no guard forbids to rank the configurations of this section."""
    table = section["show"]["table"]
    values, family = table["values"], table.get("family") or table["values"]
    rows = rows_of(section, values, results)
    lines = [describe(i, row, value, value in family, results) for i, row in enumerate(rows) for value in values]
    frame = pd.DataFrame(lines)
    complete = bool(may_rank and frame.loc[frame["tested"], "complete"].all())
    seeds = min((len(row["cells"]) for row in rows), default=0)
    frame, limits, hypotheses = against_baselines(frame, rows, results)
    pairs = every_pair(frame, rows, results) if complete and seeds > 1 else {}
    frame["bold"] = bolds(frame, rows, pairs)
    return Comparisons(frame, pairs, limits, hypotheses, seeds, complete and seeds > 1)


def describe(i: int, row: dict[str, Any], value: str, in_family: bool, results: Results) -> dict[str, Any]:
    numbers = scores(row, value, results)
    summary = summarise(numbers)
    higher = direction(value, results)
    return {
        "row": i,
        "label": row["label"],
        "variant": row["variant"],
        "value": value,
        "higher": higher,
        "tested": in_family and higher is not None,
        "complete": bool(np.isfinite(numbers).all()),
        "seeds": 0 if summary is None else summary.seeds,
        "mean": math.nan if summary is None else summary.mean,
        "half_width": math.nan if summary is None or summary.half_width is None else summary.half_width,
        "cells": list(row["cells"]),
    }


def scores(row: dict[str, Any], value: str, results: Results) -> Float[np.ndarray, " s"]:
    """Of each seed; nan where there is none."""
    name = f"{row['variant']}{value}"
    if name not in results.scores.columns:
        return np.full(len(row["cells"]), math.nan)
    return results.scores[name].reindex(row["cells"]).to_numpy(float)


def direction(value: str, results: Results) -> bool | None:
    """Whether more is better; None of what describes."""
    known: bool | None = results.directions.get(value, {}).get("higher_is_better", True)
    return known


def texts(row: dict[str, Any], value: str, results: Results, numbers: Float[np.ndarray, " s"]) -> Any:
    """What each text adds to the value at each seed; None where the value is not the mean of that."""
    found = [results.each(cell, f"{row['variant']}{value}") for cell in row["cells"]]
    if any(one is None for one in found) or len({len(one) for one in found if one is not None}) != 1:
        return None
    each = np.stack([np.asarray(one) for one in found])
    means = each.mean(1, dtype=np.float64)
    return each if np.allclose(means, numbers, atol=1e-6, rtol=0) else None


def same_texts(rows: list[dict[str, Any]], value: str, results: Results) -> bool:
    """Whether all rows were measured on the same texts in the same order."""
    split = value.partition(".")[0]
    found = [results.ids(cell, split) for row in rows for cell in row["cells"]]
    return all(one is not None and other is not None and np.array_equal(one, other) for one, other in pairwise(found))


def against_baselines(
    frame: pd.DataFrame, rows: list[dict[str, Any]], results: Results
) -> tuple[pd.DataFrame, dict[str, float | None], int]:
    """The columns that compare a row to its baseline; per value the smallest difference that would have been found."""
    lines, differences = [], {}
    for position, line in zip(frame.index, frame.to_dict("records"), strict=True):
        row = rows[line["row"]]
        baseline = baseline_of(row, rows)
        if baseline is None or not line["tested"]:
            lines.append({"verdict": "baseline" if row["baseline"] else ""})
            continue
        found, extra = one_comparison(row, baseline, line["value"], results)
        differences[position] = found
        lines.append(extra | {"against": baseline["label"]})
    told = pd.DataFrame(lines, index=frame.index).reindex(columns=COLUMNS)
    told = told.astype({name: "object" for name in ("against", "only_ours", "only_theirs", "mcnemar", "verdict")})
    frame = frame.join(told)
    adjusted = holm(np.array([math.nan if d.p is None else d.p for d in differences.values()]))
    frame.loc[list(differences), "p_holm"] = adjusted
    hypotheses = int(np.isfinite(adjusted).sum())
    limits = smallest_differences(frame, differences, hypotheses)
    for position in differences:
        line = frame.loc[position]
        frame.loc[position, "verdict"] = verdict(line, limits.get(str(line["value"])))
    return frame, limits, hypotheses


COLUMNS = [
    "against",
    "difference",
    "difference_half_width",
    "over_texts",
    "p",
    "p_holm",
    "verdict",
    "only_ours",
    "only_theirs",
    "mcnemar",
    "improvement",
    "improvement_low",
    "improvement_high",
]


def baseline_of(row: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The row that this one is compared to: its section's baseline with the same vectors."""
    if row["baseline"] or row.get("against") is None:
        return None
    known = [other for other in rows if other["place"] == row["against"] and other["variant"] == row["variant"]]
    return known[0] if known else None


def one_comparison(
    row: dict[str, Any], baseline: dict[str, Any], value: str, results: Results
) -> tuple[Difference, dict[str, Any]]:
    """Paired by the seeds that both have, and by text where each text is known."""
    ours, theirs = scores(row, value, results), scores(baseline, value, results)
    places = {seed: place for place, seed in enumerate(baseline["seeds"])}
    both = [
        (mine, places[seed])
        for mine, seed in enumerate(row["seeds"])
        if seed in places and math.isfinite(ours[mine]) and math.isfinite(theirs[places[seed]])
    ]
    mine, other = [pair[0] for pair in both], [pair[1] for pair in both]
    row, baseline = at(row, mine), at(baseline, other)
    ours, theirs = ours[mine], theirs[other]
    each = (None, None)
    if both and same_texts([row, baseline], value, results):
        each = (texts(row, value, results, ours), texts(baseline, value, results, theirs))
    if each[0] is None or each[1] is None:
        each = (None, None)
    found = paired(ours, theirs, *each)
    extra: dict[str, Any] = {
        "difference": found.mean,
        "difference_half_width": math.nan if found.half_width is None else found.half_width,
        "over_texts": found.over_texts,
        "p": math.nan if found.p is None else found.p,
    }
    if each[0] is not None and each[0].dtype == np.bool_:
        counts = [mcnemar(one, another) for one, another in zip(*each, strict=True)]
        extra |= {"only_ours": [c[0] for c in counts], "only_theirs": [c[1] for c in counts]}
        extra |= {"mcnemar": [c[2] for c in counts]}
    if len(both) > 1:
        better = (ours, theirs) if direction(value, results) else (theirs, ours)
        chance, low, high = improvement(*better, seed=GENERATOR)
        extra |= {"improvement": chance, "improvement_low": low, "improvement_high": high}
    return found, extra


def at(row: dict[str, Any], places: list[int]) -> dict[str, Any]:
    """A row at some of its seeds."""
    return row | {name: [row[name][place] for place in places] for name in ("cells", "seeds")}


def smallest_differences(
    frame: pd.DataFrame, differences: dict[Any, Difference], hypotheses: int
) -> dict[str, float | None]:
    """Of each value, at the strictest step of Holm, with the variance of all its comparisons taken together."""
    found: dict[str, float | None] = {}
    for value in dict.fromkeys(frame.loc[list(differences), "value"]):
        here = [d for place, d in differences.items() if frame.loc[place, "value"] == value and d.p is not None]
        if here:
            error, freedom = pooled(here)
            found[value] = detectable(error, freedom, ALPHA / max(1, hypotheses), POWER)
        else:
            found[value] = None
    return found


def verdict(line: Any, smallest: float | None) -> Verdict:
    if not math.isfinite(line["p_holm"]):
        return "impossible"
    if line["p_holm"] < ALPHA and line["difference"] != 0:
        return "better" if (line["difference"] > 0) == line["higher"] else "worse"
    return "impossible" if beyond_reach(line, smallest) else "not shown"


def beyond_reach(line: Any, smallest: float | None) -> bool:
    """Whether the smallest difference that would be found is larger than any that there can be."""
    name = line["value"].rpartition(".")[2]
    bounds = next((limits for kind, limits in LIMITS.items() if name.endswith(kind)), None)
    if smallest is None or bounds is None:
        return False
    baseline = line["mean"] - line["difference"]
    return smallest > max(bounds[1] - baseline, baseline - bounds[0])


def every_pair(frame: pd.DataFrame, rows: list[dict[str, Any]], results: Results) -> dict[str, Pairs]:
    """Of the rows over the same data, all values of the family corrected together."""
    found, places = {}, {}
    for value in dict.fromkeys(frame.loc[frame["tested"], "value"]):
        group = np.array([row["data"] for row in rows])
        numbers = np.stack([scores(row, value, results) for row in rows])
        each = None
        if same_texts(rows, value, results):
            known = [texts(row, value, results, own) for row, own in zip(rows, numbers, strict=True)]
            each = None if any(one is None for one in known) else np.stack(known)
        pairs = all_pairs(numbers, each)
        upper = np.triu(group[:, None] == group[None, :], 1)
        found[value], places[value] = (pairs.mean, pairs.p), upper
    flat = [p[places[value]] for value, (_, p) in found.items()]
    adjusted = holm(np.concatenate(flat)) if flat else np.zeros(0)
    parts = np.split(adjusted, np.cumsum([len(one) for one in flat])[:-1]) if flat else []
    labels = [row["label"] for row in rows]
    return {
        value: Pairs(labels, found[value][0], symmetric(len(rows), places[value], part))
        for value, part in zip(found, parts, strict=True)
    }


def symmetric(size: int, upper: Bool[np.ndarray, "k k"], values: Float[np.ndarray, " m"]) -> Float[np.ndarray, "k k"]:
    whole = np.full((size, size), math.nan)
    whole[upper] = values
    return np.where(np.isnan(whole), whole.T, whole)


def bolds(frame: pd.DataFrame, rows: list[dict[str, Any]], pairs: dict[str, Pairs]) -> list[bool]:
    """Whether a value is tied with the best of its column, over the same data; nothing is where nothing is ranked."""
    group = np.array([row["data"] for row in rows])
    chosen: dict[tuple[int, str], bool] = {}
    for value, matrix in pairs.items():
        means = frame[frame["value"] == value].sort_values("row")["mean"].to_numpy(float)
        for data in dict.fromkeys(group):
            here = np.flatnonzero(group == data)
            if len(here) > 1:
                best = tied(means[here], matrix.adjusted[np.ix_(here, here)], bool(direction_of(frame, value)))
                chosen |= {(int(place), value): bool(one) for place, one in zip(here, best, strict=True)}
    return [chosen.get((line.row, line.value), False) for line in frame.itertuples()]


def direction_of(frame: pd.DataFrame, value: str) -> Any:
    return frame.loc[frame["value"] == value, "higher"].iloc[0]
