"""Whether the numbers themselves can be what they are called: range, direction, chance, collapse, the same texts."""

import math
import re
from collections.abc import Iterator

import numpy as np
import pandas as pd

from contrastive.runs.recorded import RecordedSection
from reports.guards.same import FILES, by
from reports.guards.section_cells import Guard, SectionCell, declared, grouped, listed, values_of, where
from reports.load import SCORE, Results
from reports.markdown import heading
from reports.messages import _

NEARLY = 1e-5  # that rounding puts outside of a range
RANGES = (  # the last part of a score's name, and what it lies between
    (re.compile(r".*accuracy|.*f1|nmi|ece|precision_at_\d+|map_at_r|collapsed|top_singular_share"), 0.0, 1.0),
    (re.compile(r"ari|silhouette|anisotropy|matthews|mean|(spearman|pearson)(_.*)?"), -1.0, 1.0),
    (re.compile(r"alignment_.*|spread"), 0.0, math.inf),
    (re.compile(r"effective_rank"), 1.0, math.inf),
    (re.compile(r"uniformity"), -math.inf, 0.0),
)
ALARM = re.compile(r"(.+/)?[a-z]+\.collapsed")
TIMES = re.compile(r".*(_per_second|memory_mib|seconds)")  # what no seed decides
GUESSES = re.compile(r"(test|validation|train)\.(?!kmeans).*accuracy")  # a classifier's, to be held against chance


def measured_of(results: Results, cells: list[SectionCell]) -> pd.DataFrame:
    return results.measured[results.measured["cell"].isin({cell.cell for cell in cells})]


def limits(score: str) -> tuple[float, float]:
    name = score.rpartition(".")[2]
    return next(((low, high) for kind, low, high in RANGES if kind.fullmatch(name)), (-math.inf, math.inf))


def out_of_range(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Scores that no such measure can give, and such that are no numbers, in MLflow or in scores.json."""
    chosen = {cell.cell: cell for cell in cells if cell.status == "finished"}
    held = results.scores.reindex(list(chosen))
    measured = measured_of(results, list(chosen.values()))
    nothing = measured[~np.isfinite(measured["value"].to_numpy(float))]
    wrong = {(name, cell) for name, cell in zip(nothing["score"], nothing["cell"], strict=True)}
    for name in filter(SCORE.match, held.columns):
        low, high = limits(name)
        values = held[name].to_numpy(float)
        outside = (values < low - NEARLY) | (values > high + NEARLY) | (np.abs(values) > 1e300)
        wrong |= {(name, cell) for cell in held.index[outside]}
    if wrong:
        names = listed(sorted({name for name, _ in wrong}), 3)
        location = where([entry for cell, entry in chosen.items() if any(cell == other for _, other in wrong)])
        yield Guard(
            "range",
            _("{names}: outside of what it can be, in {location}.", names=names, location=location),
            True,
        )


def examples(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Values that rest on other texts, or another number of them, in some rows."""
    may = declared(section, results) & FILES
    measured = measured_of(results, cells)
    values = set(section.show.table.values)
    counted = {
        (cell, name): int(count)
        for cell, name, count in measured[["cell", "score", "count"]].dropna().itertuples(index=False)
        if name in values
    }
    finished = [cell for cell in cells if cell.status == "finished"]
    marks = {cell.cell: results.marks(cell.cell) for cell in finished}
    splits = {name.rpartition("/")[2].partition(".")[0] for name in values}
    for group in grouped(finished, by(may)).values():
        torn = {name for name in values if len({counted.get((c.cell, name)) for c in group} - {None}) > 1}
        torn |= {
            f"{split}.ids" for split in splits if len({marks[c.cell].get(f"{split}.ids") for c in group} - {None}) > 1
        }
        if torn:
            names = listed(sorted(torn))
            yield Guard(
                "examples",
                _("The rows were not measured on the same texts ({names} differ).", names=names),
                True,
            )
            return


def idle_seeds(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Rows whose seeds gave the very same numbers, scores and curves: there the seed does nothing."""
    columns = [name for name in results.scores.columns if not TIMES.fullmatch(name)]
    finished = [cell for cell in cells if cell.status == "finished" and cell.cell in results.scores.index]
    held = results.scores.reindex([cell.cell for cell in finished], columns=columns).to_numpy(float)
    measured = [(cell, row) for cell, row in zip(finished, held, strict=True) if np.isfinite(row).any()]
    finished, marks = [cell for cell, _ in measured], {id(cell): row.tobytes() for cell, row in measured}
    rows = grouped(finished, lambda cell: id(cell.row)).values()
    idle = [row for row in rows if len({c.cell for c in row}) > 1 and len({marks[id(c)] for c in row}) == 1]
    if idle:
        location = where([cell for row in idle for cell in row])
        yield Guard(
            "idle seeds",
            _(
                "Every number is the same at each seed, so that the seed does nothing here: {location}.",
                location=location,
            ),
            False,
        )


def collapsed(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Cells whose sentence vectors ended in one direction; their scores measure nothing."""
    for name in filter(ALARM.fullmatch, results.scores.columns):
        of, _slash, split = name.removesuffix(".collapsed").rpartition("/")
        held = values_of(results, cells, name)
        if affected := [cell for cell in cells if held.get(cell.cell) == 1]:
            location, extra = where(affected), f" ({of})" if of else ""
            yield Guard(
                "collapsed",
                _(
                    "{location}: the {split} embeddings{extra} lie in one direction",
                    location=location,
                    split=split,
                    extra=extra,
                ),
                False,
            )
    since = [cell for cell in cells if cell.provenance and cell.provenance.collapsed_since is not None]
    for step, affected in grouped(since, lambda cell: cell.provenance and cell.provenance.collapsed_since).items():
        location = where(affected)
        yield Guard(
            "collapsed",
            _("{location}: all sentence vectors lie in one direction, since step {step}", location=location, step=step),
            False,
        )


def redundant_scores(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """ARI and NMI side by side where both follow from one accuracy."""
    values = [value for value in section.show.table.values if value.endswith((".ari", ".nmi"))]
    units = [cell_units for cell in cells if (cell_units := results.units.get(cell.cell))]
    if len(values) > 1 and units and all(cell_units.get(value) for cell_units in units for value in values):
        yield Guard(
            "redundant",
            _(
                "The classes are two and balanced: ARI ≈ (2a − 1)² and NMI ≈ 1 − H(a) both follow from the "
                "accuracy a of k-means. They are one number, not two."
            ),
            False,
        )


def chance(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Rows whose accuracy, over their seeds, is not above that of always saying the largest class."""
    rows = grouped([cell for cell in cells if cell.status == "finished"], lambda cell: id(cell.row))
    for value in filter(GUESSES.fullmatch, section.show.table.values):
        held = values_of(results, cells, value)
        low = []
        for row in rows.values():
            values = [held[cell.cell] for cell in row if cell.cell in held]
            largest = [share for cell in row if (share := largest_class(cell, value.partition(".")[0]))]
            if values and largest and sum(values) / len(values) <= largest[0]:
                low += row
        if low:
            location = where(low, seeds=False)
            yield Guard(
                "chance",
                _(
                    "{score} is not above the share of the largest class, which needs no training: {location}.",
                    score=heading(value),
                    location=location,
                ),
                False,
            )


def largest_class(cell: SectionCell, split: str) -> float:
    of_classes = cell.provenance.class_counts.get(split, {}) if cell.provenance else {}
    return max(of_classes.values(), default=0) / max(1, sum(of_classes.values()))


CHECKS = (out_of_range, examples, idle_seeds, collapsed, redundant_scores, chance)
