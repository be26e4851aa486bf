"""Decide the verdict on each row of a section (better, worse, equivalent, undecided), and the rows tied with the best.

Each of the two questions (every row against its baseline; every pair of rows on the same data) has one model and one
significance level, shared by all scores of the declared family. Further and post-processed vectors of a cell are
compared with the vectors that were trained, within the same cells.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from contrastive.config.scores import margin_of
from contrastive.runs.recorded import RecordedSection
from reports.families import Decisions, RowPairs, decide_family, every_pair
from reports.rows import (
    Row,
    SeedValues,
    applies,
    direction,
    family_of,
    rows_of,
    seed_scores,
    seed_values_of_row,
    shown_values,
)
from reports.statistics.decide import (
    ALPHA,
    TESTED,
    Verdict,
    improvement,
    mcnemar,
    shown_direction,
    verdict,
)
from reports.statistics.power import Needed
from reports.statistics.summary import summarise
from reports.study import Results

GENERATOR = 20250625  # seed of the random numbers, the same in every report


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
    only_ours: tuple[int, ...] = ()  # for each seed, how many texts only this row has right
    only_theirs: tuple[int, ...] = ()
    mcnemar: tuple[float, ...] = ()
    chance: float = math.nan  # probability that further seeds of a study that adds them decide it
    improvement: float = math.nan  # probability that a seed of this row beats a seed of the baseline
    paired: bool = True  # at the seeds that both rows have; else of all runs

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


@dataclass(frozen=True)
class Section:
    """A section's rows, scores and comparisons: row by row, and score by score within a row."""

    recorded: RecordedSection
    rows: list[Row]
    scores: list[RowScore]
    pairs: dict[str, RowPairs] = field(default_factory=dict)  # by score, for the scores that rank the rows
    detectable: dict[str, float | None] = field(default_factory=dict)
    measured: dict[tuple[int, str], SeedValues] = field(default_factory=dict)
    ranked: bool = False
    most_seeds: int | None = None  # of a study that adds seeds, else None
    ended: str = ""  # why such a study has stopped; empty while it has not
    paired: bool = True  # whether rows are compared seed by seed

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
        found = [(score, score.comparison) for score in self.scores if score.comparison]
        return sorted(found, key=lambda pair: self.values.index(pair[0].value))

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

    @property
    def hypotheses(self) -> int:
        """Number of comparisons that share one significance level."""
        return sum(comparison.tested for _, comparison in self.comparisons)

    @cached_property
    def score_of(self) -> dict[tuple[int, str], RowScore]:
        """Scores by row number and name."""
        return {(score.row.number, score.value): score for score in self.scores}

    @property
    def unequal(self) -> list[str]:
        """Labels of the rows whose spread between seeds differs from the others'."""
        found = [score.row.label for score in self.scores if score.comparison and score.comparison.unequal]
        return list(dict.fromkeys(found))


def compare(section: RecordedSection, results: Results, may_rank: bool = True, may_compare: bool = True) -> Section:
    """Compare the rows of a section. `may_rank` and `may_compare` are False if a guard forbids ranking its rows, or
    comparing any two of them. If cells are missing, complete rows are still compared."""
    values, family = shown_values(section, results), family_of(section, results)
    rows = rows_of(section, values, results)
    scores = [row_score(row, value, value in family, results) for row in rows for value in values]
    tested = list(dict.fromkeys(score.value for score in scores if score.tested))
    measured = {
        (row.number, value): seed_values
        for row in rows
        for value, seed_values in seed_values_of_row(
            row, [name for name in tested if applies(row, name, results)], results
        ).items()
    }
    study, stopping = results.study, results.study.stopping
    most_seeds = None if stopping is None else stopping.most_seeds
    decisions = (
        decide_family(rows, measured, most_seeds, study.paired, study.foreign is not None)
        if may_compare
        else Decisions()
    )
    scores = [replace(score, comparison=comparison(score, rows, measured, decisions, results)) for score in scores]
    same_seeds = study.paired and (stopping is not None or len({tuple(row.seeds) for row in rows}) == 1)
    complete = may_rank and may_compare and all(score.complete for score in scores if score.tested)
    ranked = complete and min((len(row.cells) for row in rows), default=0) > 1 and same_seeds and len(rows) > 1
    pairs = every_pair(rows, tested, measured, most_seeds) if ranked else {}
    tied = tied_for_best(scores, pairs)
    scores = [replace(score, bold=(score.row.number, score.value) in tied) for score in scores]
    ended = "" if stopping is None else stopping.ended.get(section.title, "")
    return Section(
        section, rows, scores, pairs, decisions.detectable, measured, ranked, most_seeds, ended, study.paired,
    )  # fmt: skip


def row_score(row: Row, value: str, in_family: bool, results: Results) -> RowScore:
    numbers, higher = seed_scores(row, value, results), direction(value, results)
    seeds, mean, deviation = summarise(numbers)
    return RowScore(
        row,
        value,
        higher,
        in_family and higher is not None and applies(row, value, results),
        bool(np.isfinite(numbers).all()),
        seeds,
        mean,
        deviation,
        margin_of(value, results.study.margins),
    )


def comparison(
    score: RowScore,
    rows: list[Row],
    measured: dict[tuple[int, str], SeedValues],
    decisions: Decisions,
    results: Results,
) -> Comparison | None:
    """Return the comparison of a row with its baseline in one score; None if it has none or is not tested."""
    if not score.tested or score.row.against is None:
        return None
    key, against = (score.row.number, score.value), rows[score.row.against]
    ours, theirs = measured[key], measured[against.number, score.value]
    paired = decisions.groups[key].paired if key in decisions.groups else results.study.paired
    if paired:
        ours, theirs = ours.beside(theirs)
    by_text, seeds = paired and ours.same_texts(theirs), min(len(ours.seeds), len(theirs.seeds))
    difference = float(ours.numbers.mean() - theirs.numbers.mean()) if seeds else math.nan
    unjudged: Verdict = "too early" if results.progress else "not comparable"
    described = Comparison(against, seeds, difference, by_text, unjudged, paired=paired)
    if by_text and ours.per_text.dtype == np.bool_:
        counts = [mcnemar(our, their) for our, their in zip(ours.per_text, theirs.per_text, strict=True)]
        only_ours, only_theirs, chances = (tuple(column) for column in zip(*counts, strict=True))
        described = replace(described, only_ours=only_ours, only_theirs=only_theirs, mcnemar=chances)
    if seeds > 1:
        better = (ours.numbers, theirs.numbers) if ours.higher else (theirs.numbers, ours.numbers)
        described = replace(described, improvement=improvement(*better))
    decided = decisions.decided.get(key)
    if decided is None:
        return described
    outcome = verdict(difference, decided.half_width, bool(score.higher), score.margin, decided.seeds)
    if results.study.foreign:
        outcome = with_failures(outcome, *(lacks(row, score, results) for row in (score.row, against)))
    more_texts = not score.row.recorded.drawn
    needs = decisions.needed(*key, score.margin, more_texts) if outcome == "undecided" else None
    return replace(
        described,
        verdict=outcome,
        half_width=decided.half_width,
        standard_error=math.sqrt(max(decided.from_seeds, decided.own or 0.0) + decided.from_texts),
        p=decided.p,
        side=shown_direction(difference, decided.half_width, bool(score.higher)),
        unequal=decided.unequal,
        needs=needs,
        chance=decisions.chance(*key, score.margin) if outcome == "undecided" else math.nan,
        needs_seconds=seconds_of_more_seeds(needs, seeds, score.row, against, results),
    )


def lacks(row: Row, score: RowScore, results: Results) -> bool:
    """Return whether a run of a row has no value of a score, such as one that failed or diverged."""
    return not bool(np.isfinite(seed_scores(row, score.value, results)).all())


def with_failures(outcome: Verdict, ours: bool, theirs: bool) -> Verdict:
    """Return "undecided" for a verdict in favour of a row that lacks a run: this row (`ours`) or its baseline."""
    hidden = (ours and outcome in ("better", "equivalent")) or (theirs and outcome in ("worse", "equivalent"))
    return "undecided" if hidden else outcome


def seconds_of_more_seeds(needs: Needed | None, seeds: int, row: Row, against: Row, results: Results) -> float:
    """Estimate the seconds that the missing seeds of two rows train, from the times of their finished cells."""
    if needs is None or needs.seeds is None:
        return math.nan
    by_row = {  # two kinds of vectors of one configuration share their cells
        tuple(each.cells): [p.wall_seconds for cell in each.cells if (p := results.provenance(cell))]
        for each in (row, against)
    }
    if not all(by_row.values()):
        return math.nan
    return float(sum(np.mean(seconds) for seconds in by_row.values()) * (needs.seeds - seeds))


def tied_for_best(scores: Sequence[RowScore], pairs: dict[str, RowPairs]) -> set[tuple[int, str]]:
    """Return (row number, score) of the rows tied with the best on the same data: no pair of rows and no comparison
    with a baseline shows a better one. Empty for scores in which no row is excluded."""
    tied = {(row, value) for value, matrix in pairs.items() for row in matrix.rows}
    higher = {score.value: bool(score.higher) for score in scores}
    for value, matrix in pairs.items():
        worse = (matrix.means < 0 if higher[value] else matrix.means > 0) & (matrix.p <= ALPHA)
        tied -= {
            (row, value)
            for position, row in enumerate(matrix.rows)
            if worse[position].any() or np.isnan(matrix.means[position]).all()
        }
    for score in scores:
        if score.comparison and score.comparison.side:
            loser = score.row if score.comparison.side < 0 else score.comparison.against
            tied.discard((loser.number, score.value))
    excluding = {value for value, matrix in pairs.items() if any((row, value) not in tied for row in matrix.rows)}
    return {(row, value) for row, value in tied if value in excluding}
