"""Chart of the first screen: each comparison of the primary score in display units, by question, on one axis."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from matplotlib.ticker import MaxNLocator

from contrastive.config.scores import title_of
from reports.compare import Comparison, Places, RowScore, Section
from reports.markdown import difference_text, most_of, number_text, score_name, score_text, unit
from reports.messages import _
from reports.rows import Cost, references_of, row_cost
from reports.study import Results
from reports.tables import SIGNS, is_negligible, verdict_text

LONG_SIZE = 11  # letters of a difference that fit into the narrow column


class Mark(NamedTuple):
    """A mark of a verdict, which differs from the others without colours."""

    marker: str  # matplotlib's
    outline: str  # path of an SVG around (0, 0)


MOST_PARTS = 30  # lines of single data sets in a question
UNDECIDED = Mark("o", "M-4.5,0a4.5,4.5 0 1,0 9,0a4.5,4.5 0 1,0 -9,0z")
MARKS = {
    "better": Mark("^", "M-5,4 0,-5 5,4z"),
    "worse": Mark("v", "M-5,-4 0,5 5,-4z"),
    "equivalent": Mark("D", "M-4,-4h8v8h-8z"),
    "baseline": Mark("|", "M0,-6v12"),
    "reference": Mark("x", "M-4,-4 4,4M-4,4 4,-4"),
}  # of all other verdicts: UNDECIDED


@dataclass(frozen=True)
class PrimaryComparison:
    """A comparison in the primary score, with its section."""

    score: RowScore
    comparison: Comparison
    section: Section
    anchor: str

    @property
    def label(self) -> str:
        """The row's name, with its setting if there are several."""
        recorded, name = self.section.recorded, self.score.row.label
        has_several = recorded.setting and recorded.title != recorded.question
        return f"{name} ({recorded.setting})" if has_several else name

    @property
    def baseline(self) -> RowScore:
        return self.section.score_of[self.comparison.against.number, self.score.value]

    @property
    def cells(self) -> tuple[str, ...]:
        return tuple(self.score.row.cells)

    @property
    def against(self) -> tuple[str, ...]:
        return tuple(self.comparison.against.cells)


@dataclass(frozen=True)
class ForestRow:
    """A row against its baseline in display units: difference of means, interval, and difference of each seed. A
    baseline itself is a row without a difference."""

    label: str
    anchor: str  # of its section
    section: str
    verdict: str
    against: str
    higher: bool  # whether higher is better
    difference: float
    half_width: float = math.nan
    seeds: list[float] = field(default_factory=list)
    cells: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()  # cells of the baseline
    level: float = math.nan  # mean
    level_deviation: float = math.nan
    baseline_level: float = math.nan
    cost: Cost | None = None
    perhaps_negligible: bool = False
    parts: list["ForestRow"] = field(default_factory=list)  # of a mean over data sets: the row in each setting

    @property
    def gain(self) -> float:
        return self.difference if self.higher else -self.difference

    @property
    def sign(self) -> str:
        return SIGNS.get(self.verdict, "")

    @property
    def mark(self) -> Mark:
        return MARKS.get(self.verdict, UNDECIDED)

    @property
    def word(self) -> str:
        return verdict_text(self.verdict, self.perhaps_negligible)

    @property
    def has_its_levels(self) -> bool:
        """Return whether the difference is that of the means shown: rows with different seeds are compared by those
        that both have."""
        return math.isclose(self.level - self.baseline_level, self.difference, abs_tol=1e-9)


@dataclass(frozen=True)
class Group:
    """Rows that answer one question. Without a title, they belong to all of them: a common baseline, references."""

    title: str
    anchor: str
    rows: list[ForestRow]

    @property
    def lines(self) -> list[tuple[ForestRow, bool]]:
        """Each row followed by its parts, unless there are too many, and whether it is a part."""
        few = sum(len(row.parts) for row in self.rows) <= MOST_PARTS
        return [line for row in self.rows for line in ((row, False), *((part, True) for part in row.parts if few))]


@dataclass(frozen=True)
class Chart:
    """Rows by question, and the axis that they share."""

    score: str  # name; empty if nothing is compared
    margin: float | None  # in display units
    groups: list[Group]
    places: Places

    @property
    def rows(self) -> list[ForestRow]:
        return [row for group in self.groups for row in group.rows]

    @property
    def device(self) -> str:
        """Head of the costs; empty if they are unknown, or of several kinds."""
        devices = {row.cost.device for row in self.rows if row.cost}
        return _(devices.pop()) if len(devices) == 1 else ""

    @property
    def heads(self) -> list[str]:
        """Heads of the columns: difference, level, and cost if it is known."""
        with_levels = [row for group in self.groups for row, _is_part in group.lines]
        share, name = unit(self.score) > 1, score_name(title_of(self.score))
        less = "" if all(row.higher for row in self.rows) else _(" (lower is better)")
        return [
            _("difference, points{less}", less=less) if share else _("difference{less}", less=less),
            "" if all(math.isnan(row.level) for row in with_levels) else _("{score}, %", score=name) if share else name,
            *([self.device] if self.device else []),
        ]

    def size(self, row: ForestRow) -> str:
        """Return the difference of a row, with as many digits as the others."""
        if row.verdict == "baseline":
            return ""
        return difference_text(row.difference, row.half_width, most_of(self.score), self.places.difference)

    @property
    def has_long_sizes(self) -> bool:
        """Return whether a difference needs the wider column."""
        return any(len(self.size(row)) > LONG_SIZE for row in self.rows)

    def level(self, row: ForestRow) -> str:
        if math.isnan(row.level):
            return ""
        scale = unit(self.score)
        return score_text(self.score, row.level / scale, row.level_deviation / scale, self.places.mean)

    def cost(self, row: ForestRow) -> str:
        return number_text(row.cost.seconds) if row.cost and self.device else ""

    @cached_property
    def ends(self) -> tuple[float, float]:
        """Limits of the axis. It contains all intervals, seeds and the margin around zero; of the intervals of single
        data sets no more than as much again on either side."""
        limit, most = self.margin or 0.0, most_of(self.score)
        ends = [-limit, limit, *(seed for row in self.rows for seed in row.seeds)]
        for row in self.rows:
            width = row.half_width if math.isfinite(row.half_width) else 0.0
            ends += [max(-most, row.difference - width), min(most, row.difference + width)]
            ends += [part.difference for part in row.parts]
        low, high = min(ends), max(ends)
        room = high - low
        for part in (part for row in self.rows for part in row.parts if math.isfinite(part.half_width)):
            ends += [max(low - room, part.difference - part.half_width)]
            ends += [min(high + room, part.difference + part.half_width)]
        padding = 0.045 * (max(ends) - min(ends)) or 1.0
        return min(ends) - padding, max(ends) + padding

    @cached_property
    def ticks(self) -> list[float]:
        """Zero, the ends of the margin, and round numbers that are not too near to them."""
        low, high = self.ends
        wide = self.margin is not None and self.margin > 0.08 * (high - low)
        named = [-self.margin, 0.0, self.margin] if wide and self.margin else [0.0]
        edge = 0.05 * (high - low)  # room for half of a number
        ticks = list(named)
        for tick in map(float, MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(low, high)):
            nearest = min(abs(tick - other) for other in named)
            if low + edge < tick < high - edge and nearest > 0.08 * (high - low):
                ticks.append(tick)
        return sorted(ticks)

    def width(self, row: ForestRow) -> str:
        """Return the width of a row's interval within the axis, in percent."""
        low, high = self.ends
        return f"{100 * 2 * row.half_width / (high - low):.2f}%"

    def at(self, value: float) -> str:
        """Return the position of a value on the axis, in percent."""
        low, high = self.ends
        return f"{100 * (min(max(value, low), high) - low) / (high - low):.2f}%"


def forest_rows(compared: Sequence[PrimaryComparison], results: Results) -> list[ForestRow]:
    """Return a row for each comparison, the largest gain first. A comparison that several sections share, with the same
    verdict, is shown in the first; of two configurations that are each other's baseline, the first comparison."""
    rows, pairs = dict[tuple[object, ...], ForestRow](), set[tuple[tuple[str, ...], tuple[str, ...]]]()
    for pair in compared:
        if (pair.against, pair.cells) not in pairs:
            pairs.add((pair.cells, pair.against))
            rows.setdefault((pair.cells, pair.against, pair.score.verdict), forest_row(pair, results))
    return sorted(rows.values(), key=lambda row: -row.gain)


def forest_row(pair: PrimaryComparison, results: Results) -> ForestRow:
    comparison, scale = pair.comparison, unit(pair.score.value)
    return replace(
        row_at_zero(pair, pair.score, results),
        verdict=pair.score.verdict,
        against=comparison.against.label,
        difference=scale * comparison.difference,
        half_width=scale * comparison.half_width,
        seeds=[scale * difference for difference in differences_by_seed(pair)],
        beside=pair.against,
        baseline_level=scale * pair.baseline.mean,
        perhaps_negligible=is_negligible(pair.score),
    )


def row_at_zero(pair: PrimaryComparison, score: RowScore, results: Results) -> ForestRow:
    """Return one of the two rows of a comparison as a baseline."""
    scale, cells = unit(score.value), score.row.cells
    return ForestRow(
        score.row.label, pair.anchor, pair.section.recorded.title, "baseline", "", score.higher is not False, 0.0,
        cells=tuple(cells), level=scale * score.mean, level_deviation=scale * score.deviation,
        cost=row_cost(cells, results),
    )  # fmt: skip


def differences_by_seed(pair: PrimaryComparison) -> list[float]:
    """Return the differences at the seeds that both rows have; none if rows are not compared seed by seed."""
    measured, value = pair.section.measured, pair.score.value
    ours, theirs = measured.get((pair.score.row.number, value)), measured.get((pair.baseline.row.number, value))
    if not (pair.section.paired and pair.comparison.paired and ours and theirs):
        return []
    ours, theirs = ours.beside(theirs)
    return [float(difference) for difference in ours.numbers - theirs.numbers]


def reference_rows(compared: Sequence[PrimaryComparison], results: Results) -> list[ForestRow]:
    """Return rows for the references, such as TF-IDF, beside each baseline."""
    rows = list[ForestRow]()
    for pair in {pair.against: pair for pair in reversed(compared)}.values():
        value, scale = pair.score.value, unit(pair.score.value)
        rows += [
            ForestRow(
                name, pair.anchor, pair.section.recorded.title, "reference", pair.comparison.against.label,
                pair.score.higher is not False, scale * (scores[value] - pair.baseline.mean), beside=pair.against,
                level=scale * scores[value],
            )
            for name, scores in references_of(pair.section.recorded, results).items()
            if value in scores
        ]  # fmt: skip
    return rows


def grouped(rows: Sequence[ForestRow], compared: Sequence[PrimaryComparison], results: Results) -> list[Group]:
    """Group rows by question, with the baselines at the head. A baseline that all share, and the references beside it,
    stand once."""
    baselines = {pair.against: row_at_zero(pair, pair.baseline, results) for pair in reversed(compared)}
    titles = list(dict.fromkeys(pair.section.recorded.title for pair in compared))
    common = list[ForestRow]()
    if len(baselines) == 1 and len(titles) > 1:
        common = [*baselines.values(), *(row for row in rows if row.verdict == "reference")]
    groups = list[Group]()
    for title in titles:
        inside = [row for row in rows if row.section == title and row not in common]
        inside.sort(key=lambda row: row.verdict == "reference")
        names = {row.beside: row.against for row in inside}  # a row may have other names in other sections
        heads = [] if common else [replace(baselines[cells], label=name) for cells, name in names.items()]
        if len(heads) > 1:
            against = [_("{label} against {baseline}", label=row.label, baseline=row.against) for row in inside]
            inside = [replace(row, label=label) for row, label in zip(inside, against, strict=True)]
        if inside:
            groups.append(Group(title, inside[0].anchor, [*heads, *inside]))
    return [Group("", groups[0].anchor, common), *groups] if common and groups else groups
