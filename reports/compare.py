"""Decide the verdict on each row of a section (better, worse, equivalent, undecided), and the rows tied with the best.

Each of the two questions (every row against its baseline; every pair of rows on the same data) has one model and one
significance level, shared by all scores of the declared family. Further and post-processed vectors of a cell are
compared with the vectors that were trained, within the same cells.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from contrastive.config.scores import margin_of
from contrastive.runs.recorded import RecordedSection
from reports.families import Decisions, Key, RowGroup, RowPairs, decide_family, every_pair
from reports.markdown import common_places, unit
from reports.rows import (
    Row,
    SeedValues,
    applies,
    direction,
    rows_of,
    seconds_of_cell,
    seed_scores,
    seed_values_of_row,
    shown_values,
    summarise,
)
from reports.statistics.decide import (
    ALPHA,
    DECIDED,
    TESTED,
    Decided,
    Verdict,
    shown_direction,
    verdict,
)
from reports.statistics.futility import chance_of_deciding
from reports.statistics.power import Needed
from reports.study import Results, Study


@dataclass(frozen=True)
class Comparison:
    """One row against its baseline in one score, at the seeds that both have. Untested, its numbers are nan."""

    against: Row
    seeds: int
    difference: float
    by_text: bool  # whether both rows have a value for each text
    verdict: Verdict = "not comparable"
    half_width: float = math.nan  # of the interval that is simultaneous over the section
    standard_error: float = math.nan
    p: float = math.nan
    side: int = 0  # 1: the interval is better than 0, -1: worse, 0: it contains 0
    unequal: bool = False  # whether its spread between seeds differs from that of the other rows
    needs: Needed | None = None  # the seeds or texts that would decide it
    needs_seconds: float = math.nan
    chance: float = math.nan  # probability that further seeds of a study that adds them decide it
    paired: bool = True  # whether it compares the seeds that both rows have, or all runs

    @property
    def tested(self) -> bool:
        return self.verdict in TESTED


@dataclass(frozen=True)
class RowScore:
    """One score of one row: its mean over seeds, and the comparison with the baseline."""

    row: Row
    value: str  # the name of the score
    higher: bool | None  # whether higher is better; None for a descriptive score
    tested: bool
    complete: bool  # whether every seed has a value
    seeds: int
    mean: float
    deviation: float  # of the seeds' values; nan for one seed
    margin: float | None
    comparison: Comparison | None = None
    bold: bool = False  # tied with the best, while some rows are not

    @property
    def verdict(self) -> Verdict:
        return self.comparison.verdict if self.comparison else "baseline" if self.row.baseline else ""


class Places(NamedTuple):
    """Decimal places of a score in display units: of its differences, and of its means."""

    difference: int | None
    mean: int | None


@dataclass(frozen=True)
class Section:
    """A section's rows, scores and comparisons: row by row, and score by score within a row."""

    recorded: RecordedSection
    rows: list[Row]
    scores: list[RowScore]
    measured: dict[Key, SeedValues] = field(default_factory=dict)
    ranked: bool = False
    most_seeds: int | None = None  # of a study that adds seeds, else None
    ended: str = ""  # why such a study has stopped; empty while it has not
    paired: bool = True  # whether rows are compared seed by seed
    page_places: Mapping[str, Places] = field(default_factory=dict)  # by score; of all sections of a page

    def places(self, value: str) -> Places:
        return self.page_places.get(value) or places_of([self], value)

    @cached_property
    def values(self) -> list[str]:
        """Names of the scores shown."""
        return list(dict.fromkeys(score.value for score in self.scores))

    @cached_property
    def tested(self) -> list[str]:
        """Names of the scores compared."""
        return list(dict.fromkeys(score.value for score in self.scores if score.tested))

    @cached_property
    def comparisons(self) -> list[tuple[RowScore, Comparison]]:
        """Scores with their comparisons, ordered by score."""
        compared = [(score, score.comparison) for score in self.scores if score.comparison]
        return sorted(compared, key=lambda pair: self.values.index(pair[0].value))

    @cached_property
    def ordered(self) -> list[Row]:
        """Rows in the order of the first screen: the baseline, then by gain in the first compared score. As declared
        if there are several baselines or kinds of vectors."""
        value = next(iter(self.tested), "")
        gains = {
            score.row.number: comparison.difference * (1 if score.higher else -1)
            for score, comparison in self.comparisons
            if score.value == value and math.isfinite(comparison.difference)
        }
        if any(row.variant for row in self.rows) or sum(row.baseline for row in self.rows) != 1:
            return self.rows
        return sorted(self.rows, key=lambda row: (not row.baseline, -gains.get(row.number, -math.inf)))

    @cached_property
    def score_of(self) -> dict[Key, RowScore]:
        """Scores by row number and name."""
        return {(score.row.number, score.value): score for score in self.scores}

    @property
    def unequal(self) -> list[str]:
        """Labels of the rows whose spread between seeds differs from the others'."""
        labels = [score.row.label for score in self.scores if score.comparison and score.comparison.unequal]
        return list(dict.fromkeys(labels))


def places_of(sections: Sequence[Section], value: str) -> Places:
    """Return the decimal places that a score has in all sections of a page."""
    pairs = [pair for section in sections for score, pair in section.comparisons if score.value == value]
    scores = [score for section in sections for score in section.scores if score.value == value]
    scale = unit(value)
    return Places(
        common_places([(scale * pair.difference, scale * pair.half_width) for pair in pairs]),
        common_places([(math.nan, scale * score.deviation) for score in scores]),
    )


def compare(section: RecordedSection, results: Results, may_rank: bool = True, may_compare: bool = True) -> Section:
    """Compare the rows of a section. `may_rank` and `may_compare` are False if a guard forbids ranking its rows, or
    comparing any two of them. If cells are missing, complete rows are still compared."""
    study, values = results.study, shown_values(section, results)
    rows, family = rows_of(section, values, results), study.families.get(section.title) or values
    scores = [row_score(row, value, value in family, results) for row in rows for value in values]
    tested = list(dict.fromkeys(score.value for score in scores if score.tested))
    measured = dict[Key, SeedValues]()
    for row in rows:
        names = [name for name in tested if applies(row, name, results)]
        by_name = seed_values_of_row(row, names, results)
        measured |= {(row.number, name): seed_values for name, seed_values in by_name.items()}
    most_seeds = study.most_seeds
    decisions = decide_family(rows, measured, study) if may_compare else Decisions()
    scores = [replace(score, comparison=comparison(score, rows, measured, decisions, results)) for score in scores]
    ranked = may_rank and may_compare and can_be_ranked(rows, scores, study)
    pairs = every_pair(rows, tested, measured, most_seeds) if ranked else {}
    tied = tied_for_best(scores, pairs)
    scores = [replace(score, bold=(score.row.number, score.value) in tied) for score in scores]
    ended = "" if study.stopping is None else study.stopping.ended.get(section.title, "")
    return Section(section, rows, scores, measured, ranked, most_seeds, ended, study.paired)


def can_be_ranked(rows: list[Row], scores: list[RowScore], study: Study) -> bool:
    """Return whether several rows have all their scores at two or more equal seeds."""
    complete = all(score.complete for score in scores if score.tested)
    same_seeds = study.stopping is not None or len({tuple(row.seeds) for row in rows}) == 1
    return complete and study.paired and same_seeds and len(rows) > 1 and min(len(row.cells) for row in rows) > 1


def row_score(row: Row, value: str, in_family: bool, results: Results) -> RowScore:
    numbers, higher = seed_scores(row, value, results), direction(value, results)
    tested = in_family and higher is not None and applies(row, value, results)
    complete, margin = bool(np.isfinite(numbers).all()), margin_of(value, results.study.margins)
    return RowScore(row, value, higher, tested, complete, *summarise(numbers), margin)


def comparison(
    score: RowScore, rows: list[Row], measured: dict[Key, SeedValues], decisions: Decisions, results: Results
) -> Comparison | None:
    """Return the comparison of a row with its baseline in one score; None if it has none or is not tested."""
    if not score.tested or score.row.against is None:
        return None
    key, against = (score.row.number, score.value), rows[score.row.against]
    paired = decisions[key][1].paired if key in decisions else results.study.paired
    ours, theirs = measured[key], measured[against.number, score.value]
    if paired:
        ours, theirs = ours.beside(theirs)
    seeds, by_text = min(len(ours.seeds), len(theirs.seeds)), paired and ours.same_texts(theirs)
    difference = float(ours.numbers.mean() - theirs.numbers.mean()) if seeds else math.nan
    described = Comparison(against, seeds, difference, by_text, paired=paired)
    if key not in decisions:
        return replace(described, verdict="not comparable")
    return judge(described, score, *decisions[key], results)


def judge(described: Comparison, score: RowScore, decided: Decided, group: RowGroup, results: Results) -> Comparison:
    """Add the verdict, the interval, and what would decide an undecided comparison."""
    higher, against = bool(score.higher), described.against
    outcome = verdict(described.difference, decided.half_width, higher, score.margin, decided.seeds)
    if results.study.foreign:
        outcome = with_failures(outcome, score, against, results)
    judged = replace(
        described,
        verdict=outcome,
        half_width=decided.half_width,
        standard_error=math.sqrt(max(decided.from_seeds, decided.of_pair or 0.0) + decided.from_texts),
        p=decided.p,
        side=shown_direction(described.difference, decided.half_width, higher),
        unequal=decided.unequal,
    )
    if outcome != "undecided":
        return judged
    needs = group.needed(decided, score.margin, more_texts=not score.row.recorded.drawn)
    seconds = seconds_of_more_seeds(needs, described.seeds, score.row, against, results)
    return replace(
        judged, needs=needs, needs_seconds=seconds, chance=chance_of_deciding(decided, group.family, score.margin)
    )


def with_failures(outcome: Verdict, score: RowScore, against: Row, results: Results) -> Verdict:
    """Return "undecided" for a verdict in favour of a row that lacks a run, such as one that failed or diverged."""
    lacks, baseline_lacks = (
        not bool(np.isfinite(seed_scores(row, score.value, results)).all()) for row in (score.row, against)
    )
    hidden = (lacks and outcome != "worse") or (baseline_lacks and outcome != "better")
    return "undecided" if hidden and outcome in DECIDED else outcome


def seconds_of_more_seeds(needs: Needed | None, seeds: int, row: Row, against: Row, results: Results) -> float:
    """Estimate the seconds that the missing seeds of two rows train, from the times of their finished cells."""
    if needs is None or needs.seeds is None:
        return math.nan
    configurations = {tuple(row.cells), tuple(against.cells)}  # two kinds of vectors share their cells
    total = 0.0
    for cells in configurations:
        total += seconds_of_cell(cells, results)
    return total * (needs.seeds - seeds)


def tied_for_best(scores: Sequence[RowScore], pairs: dict[str, RowPairs]) -> set[Key]:
    """Return (row number, score) of the best rows: no pair of rows and no comparison with a baseline shows a row to be
    better than them, or than one that scores higher. Empty for scores in which no row is excluded."""
    higher = {score.value: bool(score.higher) for score in scores}
    compared, beaten = set[Key](), set[Key]()
    for value, of_value in pairs.items():
        for (first, second), (decided, _group) in of_value.items():
            compared |= {(first, value), (second, value)}
            if decided.p <= ALPHA:
                beaten.add((second if (decided.difference > 0) == higher[value] else first, value))
    for score in scores:
        if score.comparison and score.comparison.side:
            loser = score.row if score.comparison.side < 0 else score.comparison.against
            beaten.add((loser.number, score.value))
    tied = set[Key]()
    for value in {value for _row, value in beaten & compared}:
        means = {score.row.number: score.mean for score in scores if score.value == value}
        numbers = sorted(row for row, name in compared if name == value)
        rows = sorted(numbers, key=means.__getitem__, reverse=higher[value])
        losers = {row for row, name in beaten if name == value}
        tied |= {(row, value) for row in takewhile(lambda row: row not in losers, rows)}  # noqa: B023
    return tied
