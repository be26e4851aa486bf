"""What a section's numbers say: each configuration against its baseline, and which are tied with the best.

One model and one level for each of the two questions, shared by all values of the declared family: every configuration
against its baseline; every pair of configurations over the same data. Post-processed and further vectors of a cell are
compared with the vectors that trained it, within the same cells.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from contrastive.config.margins import margin
from contrastive.runs.recorded import RecordedSection
from reports.judge import Judged, judge_family
from reports.load import Results
from reports.pairs_of_rows import RowPairs, beaten_rows, every_pair
from reports.rows import ShownRow, family_of, rows_of, shown_values
from reports.seed_values import SeedValues, applies, direction, seed_scores, seed_values_of_row
from reports.statistics import improvement, mcnemar, summarise
from reports.verdicts import COMPARED, TESTED, side, verdict

GENERATOR = 20250625  # of what is drawn at random; the same in every report
Line = dict[str, Any]  # of the frame of comparisons: column → value


@dataclass(frozen=True)
class Comparisons:
    """`frame` has a row a (configuration, value); `hypotheses` counts the comparisons that share one level."""

    frame: pd.DataFrame
    pairs: dict[str, RowPairs] = field(default_factory=dict)
    detectable: dict[str, float | None] = field(default_factory=dict)
    hypotheses: int = 0
    seeds: int = 0
    ranked: bool = False
    measured: dict[tuple[int, str], SeedValues] = field(default_factory=dict)
    most_seeds: int | None = None  # of a study that stops by itself
    ended: str = ""  # why it has stopped, if it has

    @cached_property
    def lines(self) -> dict[str, list[dict[Any, Any]]]:
        """What was compared, by value."""
        by_value: dict[str, list[dict[Any, Any]]] = {}
        for line in self.frame[self.frame["verdict"].isin(COMPARED)].to_dict("records"):
            by_value.setdefault(line["value"], []).append(line)
        return by_value

    @property
    def unequal(self) -> list[str]:
        """Configurations that vary from seed to seed otherwise than the rest."""
        return list(dict.fromkeys(self.frame.loc[self.frame["unequal"] == True, "label"]))  # noqa: E712


def compare(section: RecordedSection, results: Results, may_rank: bool = True, may_compare: bool = True) -> Comparisons:
    """`may_rank`: whether no guard forbids to rank the configurations of this section; `may_compare`: whether none
    forbids to compare any two of them. Where cells are missing, rows that are whole are still compared."""
    values = shown_values(section, results)
    family = family_of(section, results)
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
    stopping = results.grid.stopping
    most_seeds = None if stopping is None else stopping.most_seeds
    judged = judge_family(rows, seed_values, most_seeds) if may_compare else Judged()
    frame = with_comparisons(frame, rows, seed_values, judged)
    frame["needs_seconds"] = [seconds_of_more_seeds(line, rows, results) for line in frame.to_dict("records")]
    seeds = min((len(row.cells) for row in rows), default=0)
    alike = stopping is not None or len({tuple(row.seeds) for row in rows}) == 1
    complete = bool(may_rank and may_compare and frame.loc[frame["tested"], "complete"].all())
    ranked = complete and seeds > 1 and alike and len(rows) > 1
    pairs = every_pair(rows, tested, seed_values, most_seeds) if ranked else {}
    frame["bold"] = bold(frame, pairs) if ranked else False
    hypotheses = int(frame["verdict"].isin(TESTED).sum())
    ended = "" if stopping is None else stopping.ended.get(section.title, "")
    return Comparisons(frame, pairs, judged.detectable, hypotheses, seeds, ranked, seed_values, most_seeds, ended)


def line_of_row(i: int, row: ShownRow, value: str, in_family: bool, results: Results) -> Line:
    numbers = seed_scores(row, value, results)
    summary = summarise(numbers.tolist())
    higher = direction(value, results)
    limit = margin(value, results.grid.experiment.report.margin)
    return {
        "row": i,
        "position": row.position,
        "label": row.label,
        "variant": row.variant,
        "value": value,
        "higher": higher,
        "tested": in_family and higher is not None and applies(row, value, results),
        "complete": bool(np.isfinite(numbers).all()),
        "seeds": 0 if summary is None else summary.seeds,
        "mean": math.nan if summary is None else summary.mean,
        "half_width": math.nan if summary is None or summary.half_width is None else summary.half_width,
        "margin": math.nan if limit is None else limit,
        "drawn": row.recorded.drawn,
        "cells": list(row.cells),
    }


def with_comparisons(
    frame: pd.DataFrame, rows: list[ShownRow], seed_values: dict[tuple[int, str], SeedValues], judged: Judged
) -> pd.DataFrame:
    """With the columns that compare a row to its baseline."""
    lines = []
    for line in frame.to_dict("records"):
        other = rows[line["row"]].against if line["tested"] else None
        if other is None:
            lines.append({"verdict": "baseline" if rows[line["row"]].baseline else ""})
            continue
        ours, theirs = seed_values[line["row"], line["value"]], seed_values[other, line["value"]]
        lines.append(compared_line(line, ours, theirs, judged) | {"against": rows[other].label})
    comparisons = pd.DataFrame(lines, index=frame.index).reindex(columns=COLUMNS)
    comparisons = comparisons.astype(
        dict.fromkeys(("needs_seeds", "needs_texts", "side"), float)
        | dict.fromkeys(
            ("against", "only_ours", "only_theirs", "mcnemar", "verdict", "unequal", "needs_both"), "object"
        )
    )
    return frame.join(comparisons)


COLUMNS = [
    "against",
    "common",
    "difference",
    "difference_half_width",
    "over_texts",
    "p",
    "verdict",
    "side",
    "unequal",
    "needs_seeds",
    "needs_texts",
    "needs_both",
    "only_ours",
    "only_theirs",
    "mcnemar",
    "improvement",
]


def compared_line(line: dict[Any, Any], ours: SeedValues, theirs: SeedValues, judged: Judged) -> Line:
    """One comparison: what was decided of it, and what describes it."""
    ours, theirs = ours.beside(theirs)
    by_text = ours.same_texts(theirs)
    apart = ours.numbers - theirs.numbers
    more: Line = {
        "common": len(ours.seeds),
        "difference": float(apart.mean()) if len(apart) else math.nan,
        "over_texts": by_text,
        "verdict": "not comparable",
    }
    if by_text and ours.each.dtype == np.bool_:
        counts = [mcnemar(own, other) for own, other in zip(ours.each, theirs.each, strict=True)]
        more |= {"only_ours": [c[0] for c in counts], "only_theirs": [c[1] for c in counts]}
        more |= {"mcnemar": [c[2] for c in counts]}
    if len(ours.seeds) > 1:
        better = (ours.numbers, theirs.numbers) if ours.higher else (theirs.numbers, ours.numbers)
        more["improvement"] = improvement(*better)
    decided = judged.decided.get((line["row"], line["value"]))
    if decided is None:
        return more
    limit = None if math.isnan(line["margin"]) else line["margin"]
    half = decided.half_width
    said = verdict(more["difference"], half, bool(line["higher"]), limit, decided.seeds)
    more |= {"difference_half_width": half, "p": decided.p, "verdict": said, "unequal": decided.unequal}
    more["side"] = side(more["difference"], half, bool(line["higher"]))
    if said == "undecided":
        needs = judged.needed(line["row"], line["value"], limit, more_texts=not line["drawn"])
        more |= {"needs_seeds": needs.seeds, "needs_texts": needs.texts, "needs_both": needs.together}
    return more


def seconds_of_more_seeds(line: dict[Any, Any], rows: list[ShownRow], results: Results) -> float:
    """How long the two rows of a comparison train at the seeds that would decide it, by what theirs took."""
    other = rows[line["row"]].against
    if not math.isfinite(line["needs_seeds"]) or other is None:
        return math.nan
    own = {  # other vectors of a configuration are those of the same cells
        tuple(rows[row].cells): [p.wall_seconds for cell in rows[row].cells if (p := results.provenance(cell))]
        for row in (line["row"], other)
    }
    if not all(own.values()):
        return math.nan
    return float(sum(np.mean(seconds) for seconds in own.values()) * (line["needs_seeds"] - line["common"]))


def bold(frame: pd.DataFrame, pairs: dict[str, RowPairs]) -> list[bool]:
    """Whether a row is tied with the best of those over the same data: nothing was shown to be better, neither among
    all pairs nor by the comparison with its baseline."""
    beaten = {(row, value) for value, row_pairs in pairs.items() for row in beaten_rows(row_pairs, frame)}
    ranked = {(row, value) for value, row_pairs in pairs.items() for row in row_pairs.rows}
    labels = dict(zip(frame["label"], frame["row"], strict=True))
    for line in frame.to_dict("records"):
        if line["side"] < 0:
            beaten.add((line["row"], line["value"]))
        elif line["side"] > 0:
            beaten.add((labels[line["against"]], line["value"]))
    return [(line["row"], line["value"]) in ranked - beaten for line in frame.to_dict("records")]
