"""First screen of a report: headline, setting, next step, and a forest plot of the primary score's comparisons."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from matplotlib.ticker import MaxNLocator

from contrastive.config.scores import title_of
from contrastive.errors import brief
from reports.compare import Comparison, Section
from reports.forest import ForestRow, Group, PrimaryComparison, forest_rows, grouped, reference_rows, winner
from reports.guards import Guard
from reports.markdown import (
    SPLITS,
    common_places,
    difference_text,
    fixed,
    most_of,
    number_text,
    score_name,
    score_text,
    split_of,
    unit,
    with_unit,
)  # fmt: skip
from reports.messages import N_, _, listed, n_
from reports.next_step import next_step
from reports.provenance import cells_by_data, counts_of
from reports.statistics.decide import DECIDED, verdict
from reports.study import Results, Study
from reports.tables import WORDS

MOST = 12  # rows on the first screen; if there are more, the best and the worst
CAVEATS = 2  # most caveats on the first screen
LONG_SIZE = 11  # letters of a difference that fit into the narrow column
LONGEST_TASK = 120  # characters
ORDER = ("better", "worse", "equivalent", "undecided")
TOLD = {  # verdict → what the headline says of the next best row
    "better": N_("also better than {label} ({size})"),
    "equivalent": N_("equivalent to {label} ({size})"),
    **dict.fromkeys(("not comparable", "no spread", "one seed"), N_("not compared with {label}")),
}


@dataclass(frozen=True)
class Overview:
    """Content of the first screen. Differences of a share are in percentage points."""

    task: str  # what the experiment is about, in its author's words
    headline: str
    setting: str
    score: str  # name; empty if nothing is compared
    share: bool
    higher: bool
    margin: float | None  # in display units
    groups: list[Group]
    device: str  # head of the costs; empty if these are unknown
    left_out: str  # summary of the rows between the best and the worst ones
    notes: list[str]
    warnings: int
    next: str
    command: str
    also_open: str
    origin: str  # day, commit and author

    @property
    def rows(self) -> list[ForestRow]:
        return [row for group in self.groups for row in group.rows]

    @property
    def heads(self) -> list[str]:
        """Heads of the columns: difference, level, and cost if it is known."""
        name = score_name(title_of(self.score))
        less = "" if self.higher else _(" (lower is better)")
        return [
            _("difference, points{less}", less=less) if self.share else _("difference{less}", less=less),
            _("{score}, %", score=name) if self.share else name,
            *([self.device] if self.device else []),
        ]

    def size(self, row: ForestRow) -> str:
        """Return the difference of a row, with as many digits as the others."""
        if row.verdict == "baseline":
            return ""
        return difference_text(row.difference, row.half_width, row.most, self.places)

    @property
    def has_long_sizes(self) -> bool:
        """Return whether a difference needs the wider column."""
        return any(len(self.size(row)) > LONG_SIZE for row in self.rows)

    def level(self, row: ForestRow) -> str:
        if math.isnan(row.level):
            return ""
        scale = unit(self.score)
        return score_text(self.score, row.level / scale, row.level_deviation / scale, self.level_places)

    def cost(self, row: ForestRow) -> str:
        return number_text(row.cost.seconds) if row.cost and self.device else ""

    @cached_property
    def places(self) -> int | None:
        return common_places([(row.difference, row.half_width) for row in self.rows])

    @cached_property
    def level_places(self) -> int | None:
        return common_places([(math.nan, row.level_deviation) for row in self.rows])

    @cached_property
    def ends(self) -> tuple[float, float]:
        """Limits of the axis, which contains all intervals, seeds and the margin around zero."""
        limit = self.margin or 0.0
        ends = [-limit, limit, *(seed for row in self.rows for seed in row.seeds)]
        for row in self.rows:
            width = row.half_width if math.isfinite(row.half_width) else 0.0
            ends += [max(-row.most, row.difference - width), min(row.most, row.difference + width)]
        padding = 0.03 * (max(ends) - min(ends)) or 1.0
        return min(ends) - padding, max(ends) + padding

    @cached_property
    def ticks(self) -> list[float]:
        """Zero, the ends of the margin, and round numbers that are not too near to them."""
        low, high = self.ends
        wide = self.margin is not None and self.margin > 0.04 * (high - low)
        named = [-self.margin, 0.0, self.margin] if wide and self.margin else [0.0]
        found = [*map(float, MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(low, high))]
        apart = [tick for tick in found if min(abs(tick - each) for each in named) > 0.08 * (high - low)]
        edge = 0.05 * (high - low)  # room for half of a number
        return sorted([*named, *(tick for tick in apart if low + edge < tick < high - edge)])

    def at(self, value: float) -> str:
        """Return the position of a value on the axis, in percent."""
        low, high = self.ends
        return f"{100 * (min(max(value, low), high) - low) / (high - low):.2f}%"


def overview(
    results: Results,
    sections: Sequence[Section],
    anchors: Sequence[str],
    caveats: Sequence[Sequence[Guard]] = (),
    warnings: int = 0,
    forbidding: Sequence[str] = (),
) -> Overview:
    """Return the first screen. `caveats`: limits of each section's findings, of which the first few are shown, those
    of the headline's first; `warnings`: number of notes above tables; `forbidding`: those that forbid to rank."""
    value, study = primary(results, sections), results.study
    scale = unit(value) if value else 1.0
    compared = [
        PrimaryComparison(score, comparison, section, anchor)
        for section, anchor in zip(sections, anchors, strict=True)
        for score, comparison in section.comparisons
        if score.value == value and math.isfinite(comparison.difference) and not score.row.variant
    ]
    rows = sorted(forest_rows(compared, scale, results), key=lambda row: -row.gain)
    every = sorted([*rows, *reference_rows(compared, results, scale)], key=lambda row: -row.gain)
    most = 2 * MOST if has_several_questions(rows) else MOST
    shown = every if len(every) <= most else [*every[: MOST // 2], *every[-MOST // 2 :]]
    margin = next((scale * each.score.margin for each in compared if each.score.margin is not None), None)
    best = winner(rows)
    ordered = sorted(zip(anchors, caveats, strict=False), key=lambda pair: not (best and pair[0] == best.anchor))
    first_ones = [guard for _anchor, guards in ordered for guard in guards]
    by_kind = {guard.kind: guard.words for guard in reversed(first_ones)}  # the first of each kind
    no_baseline = missing_baseline(sections)
    groups = grouped(shown, compared, scale, results)
    second = next_best(rows, compared)
    beside = [said for said in (beside_next_best(second), worse_elsewhere(best, value, sections)) if said]
    found = headline(rows, value, no_baseline, in_other_scores(value, sections), beside)
    return Overview(
        task(study),
        running(results) or found,
        " ".join(filter(None, (setting(results, value), definitions(sections, results.study)))),
        value,
        scale > 1,
        every[0].higher if every else True,
        margin,
        groups,
        device([row for group in groups for row in group.rows]),
        left_out([row for row in every if row not in shown]),
        [
            *forbidding[:CAVEATS],
            *limits(shown, margin),
            *list(reversed(by_kind.values()))[:CAVEATS],
        ],
        warnings,
        *next_step(rows, results, compared, no_baseline, second),
        origin(results),
    )


def device(rows: Sequence[ForestRow]) -> str:
    """Return what the costs of rows are measured in; empty if they are unknown, or of several kinds."""
    found = {row.cost.device for row in rows if row.cost}
    return _(found.pop()) if len(found) == 1 else ""


def counted(rows: Sequence[ForestRow]) -> str:
    """Count the rows of each verdict."""
    counts = Counter(row.verdict for row in rows)
    order = [*(word for word in ORDER if word in counts), *(word for word in counts if word not in ORDER)]
    return _(", ").join([_("{count} {verdict}", count=counts[word], verdict=_(WORDS[word])) for word in order])


def left_out(rows: Sequence[ForestRow]) -> str:
    if not rows:
        return ""
    return _("{count} more rows in their sections: {verdicts}", count=len(rows), verdicts=counted(rows))


def has_several_questions(rows: Sequence[ForestRow]) -> bool:
    """Return whether the rows belong to several questions with their own baselines."""
    return len({row.section for row in rows}) > 1 and len({row.beside for row in rows}) > 1


def primary(results: Results, sections: Sequence[Section]) -> str:
    """Return the declared primary score if it is compared, else the first compared score."""
    compared = [score.value for section in sections for score, _comparison in section.comparisons]
    declared = results.study.primary
    return declared if declared in compared else next(iter(compared), "")


def missing_baseline(sections: Sequence[Section]) -> str:
    """Suggest a `baseline` setting if no section compares anything for lack of one; else an empty text."""
    several = [section for section in sections if len([row for row in section.rows if not row.variant]) > 1]
    rows = [row for section in several for row in section.rows if not row.variant]
    settings = [f"baseline: {{{name}: {value}}}" for row in rows for name, value in row.axes.items()]
    return next(iter(settings), "") if all(row.baseline for row in rows) else ""


def in_other_scores(value: str, sections: Sequence[Section]) -> str:
    """Count the rows that are better or worse in scores other than the primary one; empty if there are none."""
    verdicts = {
        (score.value, tuple(score.row.cells), tuple(comparison.against.cells)): score.verdict
        for section in sections
        for score, comparison in section.comparisons
        if score.value != value and not score.row.variant
    }
    counts = Counter(verdicts.values())
    named = [
        _("{count} {verdict}", count=counts[word], verdict=_(WORDS[word]))
        for word in ("better", "worse")
        if counts[word]
    ]
    return _("in other scores: {verdicts}", verdicts=_(", ").join(named)) if named else ""


def worse_elsewhere(best: ForestRow | None, value: str, sections: Sequence[Section]) -> str:
    """Name the other scores in which the row with the largest gain is worse."""
    names = {
        score.value: score_name(title_of(score.value))
        for section in sections
        for score, pair in section.comparisons
        if best and (*score.row.cells,) == best.cells and (*pair.against.cells,) == best.beside
        if score.verdict == "worse" and score.value != value and not score.row.variant
    }
    return _("worse in {scores}", scores=listed([*names.values()])) if names else ""


def headline(
    rows: Sequence[ForestRow], value: str, no_baseline: str = "", other_scores: str = "", beside: Sequence[str] = ()
) -> str:
    """Return the largest significant gain, and what stands `beside` it: whether it was told from the next best row, and
    where that row is worse; without a gain, a summary of all comparisons, and of `other_scores`."""
    said = finding(rows, value, no_baseline)
    more = beside if winner(rows) else [other_scores] if other_scores else []
    return _("; ").join([said, *more]) if more else said


def next_best(rows: Sequence[ForestRow], compared: Sequence[PrimaryComparison]) -> PrimaryComparison | None:
    """Compare the row with the largest gain with the next best of its section, by the intervals of all pairs; None if
    that is its baseline."""
    best = winner(rows)
    ours = next((each for each in compared if best and (each.anchor, each.cells) == (best.anchor, best.cells)), None)
    if ours is None:
        return None
    section, score, sign = ours.section, ours.score, 1 if ours.score.higher else -1
    others = [
        other
        for other in section.scores
        if other.value == score.value and not other.row.variant and other.row.data == score.row.data
        and other.row.number != score.row.number and math.isfinite(other.mean)
    ]  # fmt: skip
    runner = max(others, key=lambda other: sign * other.mean, default=None)
    if runner is None or runner.row.number == ours.comparison.against.number:
        return None
    found = section.pairs[score.value].decided if score.value in section.pairs else {}
    pair = Comparison(runner.row, 0, score.mean - runner.mean, False)
    if key := next((key for key in found if {*key} == {score.row.number, runner.row.number}), None):
        decided, group = found[key]
        size, half = decided.difference * (1 if key[0] == score.row.number else -1), decided.half_width
        told = verdict(size, half, bool(score.higher), score.margin, decided.seeds)
        needs = group.needed(decided, score.margin, not score.row.recorded.drawn) if told == "undecided" else None
        pair = replace(pair, seeds=decided.seeds, difference=size, verdict=told, half_width=half, needs=needs)
    return PrimaryComparison(replace(score, comparison=pair), pair, section, ours.anchor)


def beside_next_best(pair: PrimaryComparison | None) -> str:
    """Say whether the row with the largest gain was told from the next best."""
    if pair is None:
        return ""
    found, scale = pair.comparison, unit(pair.score.value)
    size = difference_text(scale * found.difference, scale * found.half_width, most_of(pair.score.value))
    words = TOLD.get(found.verdict, N_("undecided against {label} ({size})"))
    return _(words, label=found.against.label, size=size)


def finding(rows: Sequence[ForestRow], value: str, no_baseline: str) -> str:
    """Summarize the comparisons of the primary score."""
    better = list({row.cells: row for row in reversed(rows) if row.verdict == "better"}.values())[::-1]
    decided = [row for row in rows if row.verdict in DECIDED]
    names = list(dict.fromkeys(row.against for row in rows))
    if better:
        best, others = better[0], len(better) - 1
        size = with_unit(best.size, unit(value) > 1)
        beats = _(
            "{label} beats {against}: {size}", label=best.label, against=best.against, size=levels(best, value, size)
        )
        beats = _("{beats} (possibly negligible)", beats=beats) if best.perhaps_negligible else beats
        if has_several_questions(rows):  # the gain answers only one of them
            counts = counted(rows)
            return _("{verdicts}. {section}: {beats}", verdicts=counts, section=best.section, beats=beats)
        more = n_("{count} other row is better too", "{count} other rows are better too", others)
        return _("; ").join([beats, more]) if others else beats
    if no_baseline and not rows:
        return _("Nothing is compared: no section names a baseline")
    if not rows:
        return _("Nothing is compared yet")
    if all(row.verdict == "one seed" for row in rows):
        if all(len(row.beside) == 1 < len(row.cells) for row in rows):
            return _("The baseline has one seed: no difference can be tested")
        return _("One seed per row: no difference can be tested")
    if all(row.verdict == "not comparable" for row in rows):
        return _("Nothing can be compared; the warnings say why")
    if not decided:
        return n_("{count} comparison is undecided", "None of {count} comparisons is decided", len(rows))
    if len(decided) == len(rows):
        return _("Nothing beats {baseline}", baseline=_(", ").join(names[:2]))
    return _(
        "Nothing was shown to beat {baseline}; {open} of {count} comparisons are undecided",
        baseline=_(", ").join(names[:2]), open=len(rows) - len(decided), count=len(rows),
    )  # fmt: skip


def levels(row: ForestRow, value: str, size: str) -> str:
    """Return a difference with the means that it lies between, if it is theirs: rows with different seeds are compared
    by those that both have."""
    places = common_places([(row.difference, row.half_width)])
    if unit(value) == 1 or places is None or not has_its_levels(row):
        return size if value == "score" else _("{score} {size}", score=score_name(title_of(value)), size=size)
    ends = {"before": fixed(row.baseline_level, places), "after": fixed(row.level, places)}
    return _("{score} {before} → {after} %, {size}", score=score_name(title_of(value)), size=size, **ends)


def has_its_levels(row: ForestRow) -> bool:
    """Return whether a difference is that of the means shown."""
    return math.isclose(row.level - row.baseline_level, row.difference, abs_tol=1e-9)


def task(study: Study) -> str:
    """Return the first sentence of the description, or the name."""
    return brief(re.split(r"(?<=[.!?])\s|(?<=[。！？])", study.description.strip())[0], LONGEST_TASK) or study.name


def setting(results: Results, value: str) -> str:
    """Describe encoder, data, and numbers of seeds and of the texts that a score is measured on."""
    study, parts = results.study, list[str]()
    rows = [row for section in study.sections for row in section.rows]
    counts = dict[str, list[str]]()  # of each data set
    for cells in cells_by_data(results).values():
        for split, by_class in counts_of(results, cells).items():
            counts.setdefault(split, []).append(str(sum(by_class.values())))
    sizes = {split: _(" or ").join([*dict.fromkeys(found)]) for split, found in counts.items()}
    on = _("{encoder} on {data}", encoder=study.encoder, data=study.source)
    parts.append(on if study.encoder else study.source)
    if "train" in sizes and (any(row.drawn for row in rows) or len(counts["train"]) > 1):
        parts.append(_("{train} training examples", train=sizes["train"]))
    elif "train" in sizes:
        parts.append(_("the same {train} training examples in every run", train=sizes["train"]))
    if (split := split_of(value)) in sizes and split != "train":
        parts.append(_("{count} {split} examples", count=sizes[split], split=_(SPLITS[split])))
    if seeds := sorted({len(row.seeds) for row in rows}):
        few_many = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]}–{seeds[-1]}"
        parts.append(n_("{seeds} seed", "{seeds} seeds", seeds[-1], seeds=few_many))
    return _("{parts}.", parts=_(", ").join(parts))


def definitions(sections: Sequence[Section], study: Study) -> str:
    """Say what brackets and ± are, if there are any."""
    scores, parts = [score for section in sections for score in section.scores], list[str]()
    if any(math.isfinite(score.deviation) for score in scores):
        runs = _("seeds") if study.paired else _("runs")
        parts.append(_("Brackets: standard deviation over {runs}", runs=runs))
    if any(score.comparison and math.isfinite(score.comparison.half_width) for score in scores):
        parts.append(_("±: joint 95 % interval of differences"))
    return _("{parts}.", parts=_("; ").join(parts)) if parts else ""


def limits(rows: Sequence[ForestRow], margin: float | None) -> list[str]:
    """Say what the lines, marks and dots on the first screen are."""
    shaded = "" if margin is None else f"{margin:g}"
    if not any(math.isfinite(row.half_width) for row in rows):
        return [_("Shaded: ± {margin}, negligible.", margin=shaded)] if shaded else []
    within = _("; equivalent: within ± {margin} (shaded); possibly negligible: reaches in", margin=shaded)
    notes: list[str] = [_("Better, worse: line excludes 0{within}.", within=within if shaded else "")]
    if any(row.seeds for row in rows):
        notes.append(_("Dots: seeds."))
    if not all(has_its_levels(row) for row in rows if math.isfinite(row.half_width)):
        notes.append(_("Differences: of common seeds."))
    return notes


def origin(results: Results) -> str:
    """Return the day of the last run, the commit if all share one, and the author if the file names one."""
    provenances = [p for run in results.cells.values() if (p := run.provenance)]
    days, commits = sorted(filter(None, (p.finished for p in provenances))), {p.commit for p in provenances}
    commit = commits.pop() if len(commits) == 1 else ""
    parts = [days[-1] if days else "", _("commit {commit}", commit=commit) if commit else "", results.study.author]
    return " · ".join([part for part in parts if part])


def running(results: Results) -> str | None:
    """Return the progress while cells are running, else None."""
    if results.progress is None:
        return None
    ended, total = results.progress
    return _("Preliminary: {ended} of {total} cells have ended", ended=ended, total=total)
