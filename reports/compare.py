"""What a section's numbers say: each configuration against its baseline, and which are tied with the best.

One family of tests for each of the two questions, with Holm's correction over all of it: every configuration against
its baseline × every value of the declared family; every pair of configurations × every value.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from reports.load import Results
from reports.rows import rows_of, shown_values
from reports.statistics import (
    ALPHA,
    POWER,
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

GENERATOR = 20250625  # of what is drawn at random; the same in every report
LIMITS = {"accuracy": (0, 1), "f1": (0, 1), "nmi": (0, 1), "ari": (-1, 1), "precision": (0, 1), "map": (0, 1)}
SAID = ("better", "worse", "not shown", "impossible", "not comparable")
Verdict = Literal["better", "worse", "not shown", "impossible", "not comparable", "baseline", ""]


@dataclass(frozen=True)
class Pairs:
    """Every pair of rows of one value over the same data: differences of the means, p after Holm (nan: no test)."""

    rows: list[int]
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
    measured: dict[tuple[int, str], "Measured"] = field(default_factory=dict)

    @property
    def smallest_p(self) -> float:
        return smallest_p(self.seeds)

    @cached_property
    def lines(self) -> dict[str, list[dict[Any, Any]]]:
        """What was compared, by value."""
        found: dict[str, list[dict[Any, Any]]] = {}
        for line in self.frame[self.frame["verdict"].isin(SAID)].to_dict("records"):
            found.setdefault(line["value"], []).append(line)
        return found


def compare(section: dict[str, Any], results: Results, may_rank: bool = True, may_compare: bool = True) -> Comparisons:
    """`may_rank`: whether no guard forbids to rank the configurations of this section; `may_compare`: whether none
    forbids to compare any two of them. Where cells are missing, rows that are whole are still compared."""
    values = shown_values(section, results)
    family = section["show"]["table"].get("family") or values
    rows = rows_of(section, values, results)
    frame = pd.DataFrame(
        [describe(i, row, value, value in family, results) for i, row in enumerate(rows) for value in values]
    )
    tested = list(dict.fromkeys(frame.loc[frame["tested"], "value"]))
    known = {
        (i, value): measured
        for i, row in enumerate(rows)
        for value, measured in measure(row, [one for one in tested if applies(row, one, results)], results).items()
    }
    complete = bool(may_rank and may_compare and frame.loc[frame["tested"], "complete"].all())
    seeds = min((len(row["cells"]) for row in rows), default=0)
    frame, limits, hypotheses = against_baselines(frame, rows, known, may_compare)
    ranked = complete and seeds > 1 and len({tuple(row["seeds"]) for row in rows}) == 1
    pairs = every_pair(rows, tested, known) if ranked else {}
    best = {line for value, found in pairs.items() for line in tied_lines(found, value, rows, frame)}
    frame["bold"] = [(line["row"], line["value"]) in best for line in frame.to_dict("records")]
    return Comparisons(frame, pairs, limits, hypotheses, seeds, ranked, known)


def describe(i: int, row: dict[str, Any], value: str, in_family: bool, results: Results) -> dict[str, Any]:
    numbers = scores(row, value, results)
    summary = summarise(numbers.tolist())
    higher = direction(value, results)
    return {
        "row": i,
        "label": row["label"],
        "variant": row["variant"],
        "value": value,
        "higher": higher,
        "tested": in_family and higher is not None and applies(row, value, results),
        "complete": bool(np.isfinite(numbers).all()),
        "seeds": 0 if summary is None else summary.seeds,
        "mean": math.nan if summary is None else summary.mean,
        "half_width": math.nan if summary is None or summary.half_width is None else summary.half_width,
        "cells": list(row["cells"]),
    }


def scores(row: dict[str, Any], value: str, results: Results) -> Float[np.ndarray, " s"]:
    """Of each seed; nan where there is none."""
    known = results.by_score.get(f"{row['variant']}{value}", {})
    return np.array([known.get(cell, math.nan) for cell in row["cells"]], dtype=float)


def applies(row: dict[str, Any], value: str, results: Results) -> bool:
    """Whether further vectors of a cell have this score at all: what its head says is known of none of them."""
    return not row["variant"] or f"{row['variant']}{value}" in results.scores.columns


def direction(value: str, results: Results) -> bool | None:
    """Whether more is better; None of what describes."""
    known: bool | None = results.directions.get(value, {}).get("higher_is_better", True)
    return known


@dataclass(frozen=True)
class Measured:
    """One value of one row: of each seed, and what each text adds at each seed where the value is the mean of that."""

    seeds: list[int]
    numbers: Float[np.ndarray, " s"]
    each: Any = None  # seed × text
    texts: tuple[int, ...] = ()  # which they are, seed by seed
    higher: bool | None = True
    count: int | None = None  # texts of a value that counts them, where each is not known

    def at(self, places: list[int]) -> "Measured":
        """At some of its seeds."""
        each = None if self.each is None else self.each[places]
        seeds, texts = (
            [self.seeds[place] for place in places],
            tuple(self.texts[place] for place in places if self.texts),
        )
        return Measured(seeds, self.numbers[places], each, texts, self.higher, self.count)


def measure(row: dict[str, Any], values: list[str], results: Results) -> dict[str, Measured]:
    """Each value of a row, with what each text adds where the value is the mean of that."""
    names = [f"{row['variant']}{value}" for value in values]
    stored = [results.examples(cell, names) for cell in row["cells"]]
    found = {}
    for value, name in zip(values, names, strict=True):
        numbers, higher = scores(row, value, results), direction(value, results)
        each = [arrays.get(name) for arrays, _ in stored]
        texts = [marks.get(f"{value.partition('.')[0]}.ids") for _, marks in stored]
        known = [one for one in each if one is not None]
        whole = len(known) == len(stored) and None not in texts and len({len(one) for one in known}) == 1
        together = np.stack(known) if whole else None
        if together is not None and np.allclose(together.mean(1, dtype=np.float64), numbers, atol=1e-6, rtol=0):
            found[value] = Measured(row["seeds"], numbers, together, tuple(one or 0 for one in texts), higher)
        else:
            found[value] = Measured(row["seeds"], numbers, higher=higher, count=counted(value, results))
    return found


COUNTING = ("macro_f1", "accuracy", "ari", "nmi")  # what is made of counts of texts


def counted(value: str, results: Results) -> int | None:
    """On how many texts a score rests that counts texts: two seeds may then agree by luck."""
    count = results.directions.get(value, {}).get("count")
    return int(count) if count and value.endswith(COUNTING) else None


def against_baselines(
    frame: pd.DataFrame, rows: list[dict[str, Any]], known: dict[tuple[int, str], Measured], may_compare: bool
) -> tuple[pd.DataFrame, dict[str, float | None], int]:
    """The columns that compare a row to its baseline; per value the smallest difference that would have been found."""
    lines, differences = [], {}
    for position, line in enumerate(frame.to_dict("records")):
        row = rows[line["row"]]
        baseline = baseline_of(row, rows)
        if baseline is None or not line["tested"]:
            lines.append({"verdict": "baseline" if row["baseline"] else ""})
            continue
        ours, theirs = known[line["row"], line["value"]], known[baseline, line["value"]]
        found, more = one_comparison(ours, theirs)
        whole = ours.seeds == theirs.seeds and more["common"] == len(ours.seeds)
        if may_compare and whole:
            differences[position] = found
        else:
            more |= {"p": math.nan, "difference_half_width": math.nan, "verdict": "not comparable"}
        lines.append(more | {"against": rows[baseline]["label"]})
    told = pd.DataFrame(lines, index=frame.index).reindex(columns=COLUMNS)
    told = told.astype(dict.fromkeys(("against", "only_ours", "only_theirs", "mcnemar", "verdict"), "object"))
    frame = frame.join(told)
    adjusted = holm(np.array([math.nan if d.p is None else d.p for d in differences.values()]))
    frame.loc[list(differences), "p_holm"] = adjusted
    hypotheses = int(np.isfinite(adjusted).sum())
    limits = smallest_differences(frame, differences, hypotheses)
    verdicts = frame["verdict"].tolist()
    told_of = frame.to_dict("records")
    for position in differences:
        verdicts[position] = verdict(told_of[position], limits.get(told_of[position]["value"]))
    frame["verdict"] = verdicts
    return frame, limits, hypotheses


COLUMNS = [
    "against",
    "common",
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
]


def baseline_of(row: dict[str, Any], rows: list[dict[str, Any]]) -> int | None:
    """The row that this one is compared to: its section's baseline with the same vectors."""
    if row["baseline"] or row.get("against") is None:
        return None
    known = (
        i for i, other in enumerate(rows) if (other["place"], other["variant"]) == (row["against"], row["variant"])
    )
    return next(known, None)


def one_comparison(ours: Measured, theirs: Measured) -> tuple[Difference, dict[str, Any]]:
    """Paired by the seeds that both have, and by text where both were measured on the same ones."""
    places = {seed: place for place, seed in enumerate(theirs.seeds)}
    both = [
        (mine, places[seed])
        for mine, seed in enumerate(ours.seeds)
        if seed in places and math.isfinite(ours.numbers[mine]) and math.isfinite(theirs.numbers[places[seed]])
    ]
    ours, theirs = ours.at([mine for mine, _ in both]), theirs.at([other for _, other in both])
    by_text = ours.each is not None and theirs.each is not None and len({*ours.texts, *theirs.texts}) == 1
    if by_text:
        found = paired(ours.numbers, theirs.numbers, ours.each, theirs.each)
    else:
        found = paired(ours.numbers, theirs.numbers, texts=ours.count)
    more: dict[str, Any] = {
        "common": len(both),
        "difference": found.mean,
        "difference_half_width": math.nan if found.half_width is None else found.half_width,
        "over_texts": found.over_texts,
        "p": math.nan if found.p is None else found.p,
    }
    if by_text and ours.each.dtype == np.bool_:
        counts = [mcnemar(one, another) for one, another in zip(ours.each, theirs.each, strict=True)]
        more |= {"only_ours": [c[0] for c in counts], "only_theirs": [c[1] for c in counts]}
        more |= {"mcnemar": [c[2] for c in counts]}
    if len(both) > 1:
        better = (ours.numbers, theirs.numbers) if ours.higher else (theirs.numbers, ours.numbers)
        more["improvement"] = improvement(*better)
    return found, more


def smallest_differences(
    frame: pd.DataFrame, differences: dict[Any, Difference], hypotheses: int
) -> dict[str, float | None]:
    """Of each value, at the strictest step of Holm, with the variance of all its comparisons taken together."""
    values = frame["value"].tolist()
    of_value: dict[str, list[Difference]] = {}
    for place, difference in differences.items():
        of_value.setdefault(values[place], []).append(difference)
    spreads = {value: pooled(found) for value, found in of_value.items()}
    alpha = ALPHA / max(1, hypotheses)
    return {value: None if spread is None else detectable(spread, alpha, POWER) for value, spread in spreads.items()}


def verdict(line: dict[Any, Any], smallest: float | None) -> Verdict:
    if not math.isfinite(line["p_holm"]):
        return "impossible"
    if line["p_holm"] < ALPHA and line["difference"] != 0:
        return "better" if (line["difference"] > 0) == line["higher"] else "worse"
    return "impossible" if beyond_reach(line, smallest) else "not shown"


def beyond_reach(line: dict[Any, Any], smallest: float | None) -> bool:
    """Whether the smallest difference that would be found is larger than any that there can be."""
    name = line["value"].rpartition(".")[2]
    bounds = next((limits for kind, limits in LIMITS.items() if name.endswith(kind)), None)
    if smallest is None or bounds is None:
        return False
    baseline = line["mean"] - line["difference"]
    return smallest > max(bounds[1] - baseline, baseline - bounds[0])


def every_pair(
    rows: list[dict[str, Any]], values: list[str], known: dict[tuple[int, str], Measured]
) -> dict[str, Pairs]:
    """Of the rows over the same data, all values of the family corrected together."""
    found, uppers = {}, {}
    for value in values:
        places = [i for i in range(len(rows)) if (i, value) in known]
        if len(places) < 2:
            continue
        group = np.array([rows[i]["data"] for i in places])
        uppers[value] = np.triu(group[:, None] == group[None, :], 1)
        own = [known[i, value] for i in places]
        by_text = all(one.each is not None for one in own) and len({text for one in own for text in one.texts}) == 1
        each = np.stack([one.each for one in own]) if by_text else None
        texts = None if by_text else own[0].count
        found[value] = (places, all_pairs(np.stack([one.numbers for one in own]), each, texts))
    if not found:
        return {}
    adjusted = holm(np.concatenate([pairs.p[uppers[value]] for value, (_, pairs) in found.items()]))
    parts = np.split(adjusted, np.cumsum([int(upper.sum()) for upper in uppers.values()])[:-1])
    return {
        value: Pairs(
            places, [rows[i]["label"] for i in places], pairs.mean, symmetric(len(places), uppers[value], part)
        )
        for (value, (places, pairs)), part in zip(found.items(), parts, strict=True)
    }


def symmetric(size: int, upper: Bool[np.ndarray, "k k"], values: Float[np.ndarray, " m"]) -> Float[np.ndarray, "k k"]:
    whole = np.full((size, size), math.nan)
    whole[upper] = values
    return np.where(np.isnan(whole), whole.T, whole)


def tied_lines(pairs: Pairs, value: str, rows: list[dict[str, Any]], frame: pd.DataFrame) -> list[tuple[int, str]]:
    """Rows that are tied with the best of those over the same data."""
    lines = frame[frame["value"] == value].set_index("row")
    group = np.array([rows[i]["data"] for i in pairs.rows])
    found = []
    for data in dict.fromkeys(group):
        here = np.flatnonzero(group == data)
        means = lines.loc[[pairs.rows[place] for place in here], "mean"].to_numpy(float)
        if len(here) > 1:
            best = tied(means, pairs.adjusted[np.ix_(here, here)], bool(lines["higher"].iloc[0]))
            found += [(pairs.rows[place], value) for place in here[best]]
    return found
