"""What a section's numbers say: each configuration against its baseline, and which are tied with the best.

One family of tests for each of the two questions, with Holm's correction over all of it: every configuration against
its baseline × every value of the declared family; every pair of configurations × every value.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from contrastive.runs.recorded import RecordedSection
from reports.load import Results
from reports.pairs_of_rows import RowPairs, every_pair, tied_lines
from reports.rows import ShownRow, rows_of, shown_values
from reports.seed_values import SeedValues, applies, direction, seed_scores, seed_values_of_row
from reports.statistics import Difference, holm, improvement, mcnemar, paired, smallest_p, summarise
from reports.verdicts import smallest_differences, verdict

GENERATOR = 20250625  # of what is drawn at random; the same in every report
Line = dict[str, Any]  # of the frame of comparisons: column → value
SAID = ("better", "worse", "not shown", "impossible", "not comparable")


@dataclass(frozen=True)
class Comparisons:
    """`frame` has a row a (configuration, value); `hypotheses` counts those that were corrected for each other."""

    frame: pd.DataFrame
    pairs: dict[str, RowPairs] = field(default_factory=dict)
    detectable: dict[str, float | None] = field(default_factory=dict)
    hypotheses: int = 0
    seeds: int = 0
    ranked: bool = False
    measured: dict[tuple[int, str], SeedValues] = field(default_factory=dict)

    @property
    def smallest_p(self) -> float:
        return smallest_p(self.seeds)

    @cached_property
    def lines(self) -> dict[str, list[dict[Any, Any]]]:
        """What was compared, by value."""
        by_value: dict[str, list[dict[Any, Any]]] = {}
        for line in self.frame[self.frame["verdict"].isin(SAID)].to_dict("records"):
            by_value.setdefault(line["value"], []).append(line)
        return by_value


def compare(section: RecordedSection, results: Results, may_rank: bool = True, may_compare: bool = True) -> Comparisons:
    """`may_rank`: whether no guard forbids to rank the configurations of this section; `may_compare`: whether none
    forbids to compare any two of them. Where cells are missing, rows that are whole are still compared."""
    values = shown_values(section, results)
    family = section.show.table.family or values
    rows = rows_of(section, values, results)
    frame = pd.DataFrame(
        [line_of_row(i, row, value, value in family, results) for i, row in enumerate(rows) for value in values]
    )
    tested = list(dict.fromkeys(frame.loc[frame["tested"], "value"]))
    seed_values = {
        (i, value): measured
        for i, row in enumerate(rows)
        for value, measured in seed_values_of_row(
            row, [name for name in tested if applies(row, name, results)], results
        ).items()
    }
    complete = bool(may_rank and may_compare and frame.loc[frame["tested"], "complete"].all())
    seeds = min((len(row.cells) for row in rows), default=0)
    frame, limits, hypotheses = against_baselines(frame, rows, seed_values, may_compare)
    ranked = complete and seeds > 1 and len({tuple(row.seeds) for row in rows}) == 1
    pairs = every_pair(rows, tested, seed_values) if ranked else {}
    best = {line for value, row_pairs in pairs.items() for line in tied_lines(row_pairs, value, rows, frame)}
    frame["bold"] = [(line["row"], line["value"]) in best for line in frame.to_dict("records")]
    return Comparisons(frame, pairs, limits, hypotheses, seeds, ranked, seed_values)


def line_of_row(i: int, row: ShownRow, value: str, in_family: bool, results: Results) -> Line:
    numbers = seed_scores(row, value, results)
    summary = summarise(numbers.tolist())
    higher = direction(value, results)
    return {
        "row": i,
        "label": row.label,
        "variant": row.variant,
        "value": value,
        "higher": higher,
        "tested": in_family and higher is not None and applies(row, value, results),
        "complete": bool(np.isfinite(numbers).all()),
        "seeds": 0 if summary is None else summary.seeds,
        "mean": math.nan if summary is None else summary.mean,
        "half_width": math.nan if summary is None or summary.half_width is None else summary.half_width,
        "cells": list(row.cells),
    }


def against_baselines(
    frame: pd.DataFrame, rows: list[ShownRow], seed_values: dict[tuple[int, str], SeedValues], may_compare: bool
) -> tuple[pd.DataFrame, dict[str, float | None], int]:
    """The columns that compare a row to its baseline; per value the smallest difference that would have been found."""
    lines, differences = [], {}
    for position, line in enumerate(frame.to_dict("records")):
        row = rows[line["row"]]
        baseline = baseline_of(row, rows)
        if baseline is None or not line["tested"]:
            lines.append({"verdict": "baseline" if row.baseline else ""})
            continue
        ours, theirs = seed_values[line["row"], line["value"]], seed_values[baseline, line["value"]]
        difference, more = one_comparison(ours, theirs)
        whole = ours.seeds == theirs.seeds and more["common"] == len(ours.seeds)
        if may_compare and whole:
            differences[position] = difference
        else:
            more |= {"p": math.nan, "difference_half_width": math.nan, "verdict": "not comparable"}
        lines.append(more | {"against": rows[baseline].label})
    comparisons = pd.DataFrame(lines, index=frame.index).reindex(columns=COLUMNS)
    comparisons = comparisons.astype(
        dict.fromkeys(("against", "only_ours", "only_theirs", "mcnemar", "verdict"), "object")
    )
    frame = frame.join(comparisons)
    adjusted = holm(np.array([math.nan if d.p is None else d.p for d in differences.values()]))
    frame.loc[list(differences), "p_holm"] = adjusted
    hypotheses = int(np.isfinite(adjusted).sum())
    limits = smallest_differences(frame, differences, hypotheses)
    verdicts = frame["verdict"].tolist()
    records = frame.to_dict("records")
    for position in differences:
        verdicts[position] = verdict(records[position], limits.get(records[position]["value"]))
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


def baseline_of(row: ShownRow, rows: list[ShownRow]) -> int | None:
    """The row that this one is compared to: its section's baseline with the same vectors."""
    if row.baseline or row.against is None:
        return None
    positions = (i for i, other in enumerate(rows) if (other.position, other.variant) == (row.against, row.variant))
    return next(positions, None)


def one_comparison(ours: SeedValues, theirs: SeedValues) -> tuple[Difference, Line]:
    """Paired by the seeds that both have, and by text where both were measured on the same ones."""
    positions = {seed: position for position, seed in enumerate(theirs.seeds)}
    both = [
        (mine, positions[seed])
        for mine, seed in enumerate(ours.seeds)
        if seed in positions and math.isfinite(ours.numbers[mine]) and math.isfinite(theirs.numbers[positions[seed]])
    ]
    ours, theirs = ours.at([mine for mine, _ in both]), theirs.at([other for _, other in both])
    by_text = ours.each is not None and theirs.each is not None and len({*ours.texts, *theirs.texts}) == 1
    if by_text:
        difference = paired(ours.numbers, theirs.numbers, ours.each, theirs.each)
    else:
        difference = paired(ours.numbers, theirs.numbers, texts=ours.count)
    more: Line = {
        "common": len(both),
        "difference": difference.mean,
        "difference_half_width": math.nan if difference.half_width is None else difference.half_width,
        "over_texts": difference.over_texts,
        "p": math.nan if difference.p is None else difference.p,
    }
    if by_text and ours.each.dtype == np.bool_:
        counts = [mcnemar(own, other) for own, other in zip(ours.each, theirs.each, strict=True)]
        more |= {"only_ours": [c[0] for c in counts], "only_theirs": [c[1] for c in counts]}
        more |= {"mcnemar": [c[2] for c in counts]}
    if len(both) > 1:
        better = (ours.numbers, theirs.numbers) if ours.higher else (theirs.numbers, ours.numbers)
        more["improvement"] = improvement(*better)
    return difference, more
