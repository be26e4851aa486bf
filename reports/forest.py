"""Rows of the first screen: each comparison of the primary score in display units, by question."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from reports.compare import Comparison, RowScore, Section
from reports.markdown import difference_text, most_of
from reports.messages import _
from reports.rows import Cost, references_of, row_cost
from reports.study import Results
from reports.tables import SIGNS, is_negligible, verdict_text


@dataclass(frozen=True)
class ForestRow:
    """A row against its baseline in display units: difference of means, interval, and difference of each seed. A
    baseline itself is a row without a difference."""

    label: str
    anchor: str  # of its section
    section: str
    verdict: str
    against: str
    higher: bool
    difference: float
    half_width: float = math.nan
    seeds: list[float] = field(default_factory=list)
    cells: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()  # cells of the baseline
    most: float = math.inf  # the largest possible difference
    level: float = math.nan  # mean
    level_deviation: float = math.nan
    baseline_level: float = math.nan
    cost: Cost | None = None
    perhaps_negligible: bool = False
    name: str = ""  # the label, with the baseline if its question has several

    @property
    def gain(self) -> float:
        return self.difference if self.higher else -self.difference

    @property
    def sign(self) -> str:
        return SIGNS.get(self.verdict, "")

    @property
    def mark(self) -> str:
        return MARKS.get(self.verdict, MARKS["undecided"])

    @property
    def word(self) -> str:
        return verdict_text(self.verdict, self.perhaps_negligible)

    @property
    def size(self) -> str:
        return difference_text(self.difference, self.half_width, self.most)


# outlines of the marks around (0, 0), so that verdicts differ without colours
MARKS = {
    "better": "M-5,4 0,-5 5,4z", "worse": "M-5,-4 0,5 5,-4z", "equivalent": "M-4,-4h8v8h-8z", "baseline": "M0,-6v12",
    "reference": "M-4,-4 4,4M-4,4 4,-4", "undecided": "M-4.5,0a4.5,4.5 0 1,0 9,0a4.5,4.5 0 1,0 -9,0z",
}  # fmt: skip


@dataclass(frozen=True)
class Group:
    """Rows that answer one question. Without a title, they belong to all of them: a common baseline, references."""

    title: str
    anchor: str
    rows: list[ForestRow]


@dataclass(frozen=True)
class PrimaryComparison:
    """A comparison in the primary score, with its section."""

    score: RowScore
    comparison: Comparison
    section: Section
    anchor: str

    @property
    def baseline(self) -> RowScore:
        return self.section.score_of[self.comparison.against.number, self.score.value]

    @property
    def cells(self) -> tuple[str, ...]:
        return tuple(self.score.row.cells)

    @property
    def against(self) -> tuple[str, ...]:
        return tuple(self.comparison.against.cells)


def winner(rows: Sequence[ForestRow]) -> ForestRow | None:
    """Return the row with the largest significant gain."""
    return max((row for row in rows if row.verdict == "better"), key=lambda row: row.gain, default=None)


def forest_rows(compared: Sequence[PrimaryComparison], scale: float, results: Results) -> list[ForestRow]:
    """Return a row for each comparison. A comparison that several sections share, with the same verdict, is shown in
    the first; of two configurations that are each other's baseline, the first comparison is shown."""
    found, pairs = dict[tuple[object, ...], ForestRow](), set[tuple[tuple[str, ...], tuple[str, ...]]]()
    for each in compared:
        if (each.against, each.cells) not in pairs:
            pairs.add((each.cells, each.against))
            row = forest_row(each, scale, results)
            found.setdefault((each.cells, each.against, row.verdict), row)
    return list(found.values())


def forest_row(each: PrimaryComparison, scale: float, results: Results) -> ForestRow:
    score, comparison, measured = each.score, each.comparison, each.section.measured
    key, baseline = (score.row.number, score.value), (comparison.against.number, score.value)
    by_seed: list[float] = []
    if each.section.paired and comparison.paired and key in measured and baseline in measured:
        ours, theirs = measured[key].beside(measured[baseline])
        by_seed = [scale * float(difference) for difference in ours.numbers - theirs.numbers]
    return ForestRow(
        score.row.label, each.anchor, each.section.recorded.title, score.verdict, comparison.against.label,
        score.higher is not False, scale * comparison.difference, scale * comparison.half_width, by_seed,
        each.cells, each.against, most_of(score.value), scale * score.mean, scale * score.deviation,
        scale * each.baseline.mean, row_cost(score.row.cells, results), is_negligible(score),
    )  # fmt: skip


def baseline_row(each: PrimaryComparison, scale: float, results: Results) -> ForestRow:
    """Return the row of a comparison's baseline, at zero."""
    score = each.baseline
    return ForestRow(
        score.row.label, each.anchor, each.section.recorded.title, "baseline", "", score.higher is not False, 0.0,
        cells=each.against, level=scale * score.mean, level_deviation=scale * score.deviation,
        cost=row_cost(score.row.cells, results),
    )  # fmt: skip


def reference_rows(compared: Sequence[PrimaryComparison], results: Results, scale: float) -> list[ForestRow]:
    """Return rows for the references, such as TF-IDF; none if the rows have several baselines."""
    if len({each.against for each in compared}) != 1:
        return []
    first = compared[0]
    return [
        ForestRow(
            name, first.anchor, "", "reference", first.comparison.against.label, first.score.higher is not False,
            scale * (scores[first.score.value] - first.baseline.mean), level=scale * scores[first.score.value],
        )
        for name, scores in references_of(first.section.recorded, results).items()
        if first.score.value in scores
    ]  # fmt: skip


def grouped(
    rows: Sequence[ForestRow], compared: Sequence[PrimaryComparison], scale: float, results: Results
) -> list[Group]:
    """Group rows by question, that of the headline first, with the baselines at the head: once if all share one."""
    best = winner(rows)
    titles = dict.fromkeys(each.section.recorded.title for each in compared)
    ordered = sorted(titles, key=lambda title: not (best and title == best.section))
    baselines = {each.against: baseline_row(each, scale, results) for each in reversed(compared)}
    common, groups = len(baselines) == 1, list[Group]()
    for title in ordered:
        own = [row for row in rows if row.section == title]
        if own:
            against = [] if common else [baselines[one] for one in dict.fromkeys(row.beside for row in own)]
            groups.append(Group(title, own[0].anchor, [*against, *(named(row, len(against) > 1) for row in own)]))
    references = [row for row in rows if row.verdict == "reference"]
    if common and len(groups) == 1:
        return [replace(groups[0], rows=[*baselines.values(), *groups[0].rows, *references])]
    head = [Group("", rows[0].anchor, [*baselines.values(), *references])] if common and rows else []
    return [*head, *groups]


def named(row: ForestRow, with_baseline: bool) -> ForestRow:
    """Name the baseline of a row whose question has several."""
    name = _("{label} against {baseline}", label=row.label, baseline=row.against) if with_baseline else row.label
    return replace(row, name=name)
