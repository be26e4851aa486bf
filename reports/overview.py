"""First screen of a report: headline, setting, next step, and a forest plot of the primary score's comparisons."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from matplotlib.ticker import MaxNLocator

from contrastive.config.scores import metric_of
from reports.compare import Comparison, RowScore, Section
from reports.guards.rows import Guard
from reports.markdown import difference_text, duration, most_of, score_name, unit, with_unit
from reports.messages import Message, Text, _, joined, n_
from reports.provenance import counts_of
from reports.rows import near_best, references_of
from reports.statistics.decide import ALPHA, DECIDED, TESTED
from reports.study import Results
from reports.tables import SIGNS, WORDS, what_decides

MOST = 12  # rows on the first screen; if there are more, the best and the worst
SAME = " = "  # between the names of one configuration
MAX_SEEDS = 20  # default of `--until-decided`
CAVEATS = 2  # most caveats on the first screen


@dataclass(frozen=True)
class ForestRow:
    """A row against its baseline in display units: difference of means, interval, and difference of each seed."""

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
    most: float = math.inf  # the largest possible difference
    name: Text = ""  # the label, with the baseline if there are several

    @property
    def gain(self) -> float:
        return self.difference if self.higher else -self.difference

    @property
    def sign(self) -> str:
        return SIGNS.get(self.verdict, "")

    @property
    def word(self) -> Message:
        return WORDS[self.verdict]

    @property
    def size(self) -> str:
        return difference_text(self.difference, self.half_width, self.most)


@dataclass(frozen=True)
class Overview:
    """Content of the first screen. Differences of a share are in percentage points."""

    question: str  # title of the section that the headline answers
    headline: Text
    setting: Text
    score: str  # name; empty if nothing is compared
    share: bool
    higher: bool
    margin: float | None  # in display units
    rows: list[ForestRow]
    left_out: Text  # summary of the rows between the best and the worst ones
    notes: list[Text]
    warnings: int
    next: Text
    command: str

    @property
    def caption(self) -> Text:
        """Explain the axis, the shading and the dots."""
        name = score_name(metric_of(self.score))
        said: Text = _("Points of {score}", score=name) if self.share else _("Difference of {score}", score=name)
        if not self.higher:
            said = _("{said}, lower is better", said=said)
        if self.margin is not None:
            said = _("{said}; shaded: negligible (± {margin})", said=said, margin=f"{self.margin:g}")
        seeds = any(row.seeds for row in self.rows)
        return _("{said}; dots: seeds.", said=said) if seeds else _("{said}.", said=said)

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
        low, high = self.ends
        return [
            tick for tick in map(float, MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(low, high)) if low < tick < high
        ]

    def at(self, value: float) -> str:
        """Return the position of a value on the axis, in percent."""
        low, high = self.ends
        return f"{100 * (min(max(value, low), high) - low) / (high - low):.2f}%"


@dataclass(frozen=True)
class PrimaryComparison:
    """A comparison in the primary score, with its section."""

    score: RowScore
    comparison: Comparison
    section: Section
    anchor: str

    @property
    def level(self) -> float:
        """Mean of the baseline."""
        return self.section.score_of[self.comparison.against.number, self.score.value].mean


def overview(
    results: Results,
    sections: Sequence[Section],
    anchors: Sequence[str],
    caveats: Sequence[Guard] = (),
    warnings: int = 0,
    forbidding: Sequence[Text] = (),
) -> Overview:
    """Return the first screen. `caveats`: limits of the sections' findings, of which the first few are shown;
    `warnings`: number of notes above tables; `forbidding`: the notes that forbid ranking."""
    value = primary(results, sections)
    scale = unit(value) if value else 1.0
    share = scale > 1
    compared = [
        PrimaryComparison(score, comparison, section, anchor)
        for section, anchor in zip(sections, anchors, strict=True)
        for score, comparison in section.comparisons
        if score.value == value and math.isfinite(comparison.difference) and not score.row.variant
    ]
    by_gain = sorted(forest_rows(compared, scale), key=lambda row: -row.gain)
    rows = with_distinct_labels(by_gain, compared, results.study.board != "records")
    references = reference_rows(compared, results, scale)
    by_kind = {guard.kind: guard.words for guard in reversed(caveats)}  # the first of each kind
    first_caveats = [words for kind, words in reversed(by_kind.items()) if not (references and kind == "reference")]
    every = sorted([*rows, *references], key=lambda row: -row.gain)
    shown = every if len(every) <= MOST else [*every[: MOST // 2], *every[-MOST // 2 :]]
    if results.study.board == "records":
        shown = some_records(
            [row for row in every if row.verdict in TESTED], [each.score.row.label for each in compared]
        )
    between = [row for row in every if row not in shown]
    margin = next((each.score.margin for each in compared if each.score.margin is not None), None)
    return Overview(
        question(rows, results),
        running(results)
        or board_headline(rows, results)
        or headline(
            rows, share, missing_baseline(sections), in_other_scores(value, sections), beside_next_best(rows, compared)
        ),
        setting(results, compared, share),
        value,
        share,
        every[0].higher if every else True,
        None if margin is None else margin * scale,
        shown,
        headline_counts(between),
        [*forbidding[:CAVEATS], *limits(rows), *first_caveats[:CAVEATS]],
        warnings,
        *next_step(rows, results, next_open(rows, compared, results), missing_baseline(sections)),
    )


def some_records(claims: Sequence[ForestRow], order: Sequence[str]) -> list[ForestRow]:
    """Return the records that hold and the newest of the others, at most MOST if so few hold, in their order."""
    ordered = sorted(claims, key=lambda row: order.index(row.label))
    holding = [row for row in ordered if row.verdict == "better"]
    others = [row for row in ordered if row.verdict != "better"]
    kept = [*holding, *others[len(others) - max(0, MOST - len(holding)) :]] if len(ordered) > MOST else ordered
    return [row for row in ordered if row in kept]


def headline_counts(rows: Sequence[ForestRow]) -> Text:
    if not rows:
        return ""
    counts = [
        _("{count} {verdict}", count=count, verdict=word) for word, count in Counter(row.word for row in rows).items()
    ]
    return _("{count} more rows in their sections: {verdicts}", count=len(rows), verdicts=joined(counts, _(", ")))


def decidable(compared: Sequence[PrimaryComparison]) -> list[PrimaryComparison]:
    """Return the open comparisons that seeds or texts would decide, the cheapest first, each pair of rows once."""
    found = [
        each
        for each in compared
        if each.score.verdict == "undecided" and (needs := each.comparison.needs)
        if needs.seeds is not None or needs.texts is not None
    ]
    pairs = {(tuple(each.score.row.cells), tuple(each.comparison.against.cells)): each for each in reversed(found)}
    return sorted(pairs.values(), key=cost_to_decide)


def next_open(
    rows: Sequence[ForestRow], compared: Sequence[PrimaryComparison], results: Results
) -> PrimaryComparison | None:
    """Return the cheapest open comparison of the headline's question, or else of all; None if there is none."""
    found, asked = decidable(compared), question(rows, results)
    return next((each for each in found if each.section.recorded.title == asked), next(iter(found), None))


def cost_to_decide(each: PrimaryComparison) -> tuple[float, float]:
    """Return the seconds that decide a comparison (infinite if unknown), and the seeds in all."""
    seeds = each.comparison.needs.seeds if each.comparison.needs else None
    return float(np.nan_to_num(each.comparison.needs_seconds, nan=np.inf)), math.inf if seeds is None else seeds


def forest_rows(compared: Sequence[PrimaryComparison], scale: float) -> list[ForestRow]:
    """Return a row for each comparison. Comparisons of several sections with equal cells, baseline and verdict share
    one row, under all their names. Of two configurations that are each other's baseline, the first comparison is shown.
    """
    found, pairs = dict[tuple[object, ...], ForestRow](), set[tuple[tuple[str, ...], tuple[str, ...]]]()
    for each in compared:
        row, pair = forest_row(each, scale), (tuple(each.score.row.cells), tuple(each.comparison.against.cells))
        if pair[::-1] in pairs:
            continue
        pairs.add(pair)
        key = (*pair, row.verdict)
        known = found.setdefault(key, row)
        if row.label not in known.label.split(SAME):
            found[key] = replace(known, label=f"{known.label}{SAME}{row.label}")
    names = Counter((row.label, row.against) for row in found.values())
    return [
        row if names[row.label, row.against] == 1 else replace(row, label=f"{row.label} ({row.section})")
        for row in found.values()
    ]


def forest_row(each: PrimaryComparison, scale: float) -> ForestRow:
    score, comparison, measured = each.score, each.comparison, each.section.measured
    key, baseline = (score.row.number, score.value), (comparison.against.number, score.value)
    by_seed: list[float] = []
    if each.section.paired and comparison.paired and key in measured and baseline in measured:
        ours, theirs = measured[key].beside(measured[baseline])
        by_seed = [scale * float(difference) for difference in ours.numbers - theirs.numbers]
    return ForestRow(
        score.row.label, each.anchor, each.section.recorded.title, score.verdict, comparison.against.label,
        score.higher is not False, scale * comparison.difference, scale * comparison.half_width, by_seed,
        tuple(score.row.cells), most_of(score.value),
    )  # fmt: skip


def with_distinct_labels(
    rows: list[ForestRow], compared: Sequence[PrimaryComparison], with_baseline: bool
) -> list[ForestRow]:
    """Give each row its display name, `with_baseline` if there are several (of a record it is the best one before)."""
    several = with_baseline and len({tuple(each.comparison.against.cells) for each in compared}) > 1
    return [
        replace(
            row, name=_("{label} against {baseline}", label=row.label, baseline=row.against) if several else row.label
        )
        for row in rows
    ]


def reference_rows(compared: Sequence[PrimaryComparison], results: Results, scale: float) -> list[ForestRow]:
    """Return rows for the references, such as TF-IDF; none if the rows have several baselines."""
    if len({tuple(each.comparison.against.cells) for each in compared}) != 1:
        return []
    first = compared[0]
    return [
        ForestRow(
            name, first.anchor, first.section.recorded.title, "reference", first.comparison.against.label,
            first.score.higher is not False, scale * (scores[first.score.value] - first.level), name=name,
        )
        for name, scores in references_of(first.section.recorded, results).items()
        if first.score.value in scores
    ]  # fmt: skip


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


def in_other_scores(value: str, sections: Sequence[Section]) -> Text:
    """Count the rows that are better or worse in scores other than the primary one; empty if there are none."""
    verdicts = {
        (score.value, tuple(score.row.cells), tuple(comparison.against.cells)): score.verdict
        for section in sections
        for score, comparison in section.comparisons
        if score.value != value and not score.row.variant
    }
    counts = Counter(verdicts.values())
    named = [
        _("{count} {verdict}", count=counts[word], verdict=WORDS[word]) for word in ("better", "worse") if counts[word]
    ]
    return _("in other scores: {verdicts}", verdicts=joined(named, _(", "))) if named else ""


def board_headline(rows: Sequence[ForestRow], results: Results) -> Text:
    """Count the rows that cannot be told from the first one, or the records that hold; empty if there is no board."""
    counts = Counter(row.verdict for row in rows)
    known = any(counts[word] for word in (*TESTED, "no record"))
    if not known and results.study.texts and (found := near_best(results.study.sections[0], results)) and found.near:
        return n_(
            "{texts} texts cannot tell {count} row from {best}; there is one seed a row",
            "{texts} texts cannot tell {count} rows from {best}; there is one seed a row",
            len(found.near), texts=found.texts, best=found.best,
        )  # fmt: skip
    if not results.study.board or not known:
        return ""
    if results.study.board == "records":
        claims = sum(counts[word] for word in TESTED)
        return _(
            "{holding} of {claims} records hold, {open} are open",
            holding=counts["better"], claims=claims, open=counts["undecided"],
        )  # fmt: skip
    first, tied = rows[0].against, sum(not abs(row.difference) > row.half_width for row in rows)
    if not tied:
        return _("{first} is better than every other row", first=first)
    return n_(
        "{count} row cannot be told from {first}, the first",
        "{count} rows cannot be told from {first}, the first",
        tied,
        first=first,
    )


def headline(
    rows: Sequence[ForestRow], share: bool, no_baseline: str = "", other_scores: Text = "", next_best: Text = ""
) -> Text:
    """Return the largest significant gain, and whether it was told from the `next_best` row; without one, a summary of
    all comparisons, and of `other_scores`."""
    said = finding(rows, share, no_baseline)
    found = any(row.verdict == "better" for row in rows)
    more = next_best if found else other_scores
    return joined([said, more], _("; ")) if more else said


def beside_next_best(rows: Sequence[ForestRow], compared: Sequence[PrimaryComparison]) -> Text:
    """Say whether the row with the largest gain was told from the next best of its section, if that is no baseline."""
    best = next((row for row in rows if row.verdict == "better"), None)
    found = [each for each in compared if best and each.anchor == best.anchor]
    ours = next((each for each in found if best and tuple(each.score.row.cells) == best.cells), None)
    if ours is None:
        return ""
    section, value, sign = ours.section, ours.score.value, 1 if ours.score.higher else -1
    others = [
        score
        for score in section.scores
        if score.value == value and not score.row.variant and score.row.data == ours.score.row.data
        and score.row.number != ours.score.row.number and math.isfinite(score.mean)
    ]  # fmt: skip
    runner = max(others, key=lambda score: sign * score.mean, default=None)
    if runner is None or runner.row.number == ours.comparison.against.number:
        return ""
    pairs, told = section.pairs.get(value), math.nan
    if pairs and {ours.score.row.number, runner.row.number} <= {*pairs.rows}:
        told = float(pairs.p[pairs.rows.index(ours.score.row.number), pairs.rows.index(runner.row.number)])
    if math.isnan(told):
        return _("not compared with {label}", label=runner.row.label)
    if told <= ALPHA and sign * (ours.score.mean - runner.mean) > 0:
        return _("also better than {label}", label=runner.row.label)
    return _("not told from {label}", label=runner.row.label)


def finding(rows: Sequence[ForestRow], share: bool, no_baseline: str) -> Text:
    """Summarize the comparisons of the primary score."""
    better = list({row.cells: row for row in reversed(rows) if row.verdict == "better"}.values())[::-1]
    decided = [row for row in rows if row.verdict in DECIDED]
    names = list(dict.fromkeys(row.against for row in rows))
    if better:
        best, others = better[0], len(better) - 1
        beats = _("{label} beats {against}: {size}",
                 label=best.label, against=best.against, size=with_unit(best.size, share))  # fmt: skip
        more = n_("{count} other row is better too", "{count} other rows are better too", others)
        return joined([beats, more], _("; ")) if others else beats
    if no_baseline and not rows:
        return _("Nothing is compared: no section names a baseline")
    if not rows:
        return _("Nothing is compared yet")
    if all(row.verdict == "one seed" for row in rows):
        return _("One seed a row: no difference can be called real")
    if all(row.verdict == "not comparable" for row in rows):
        return _("Nothing can be compared; the warnings say why")
    if not decided:
        return n_("{count} comparison is still open", "None of {count} comparisons is decided yet", len(rows))
    if len(decided) == len(rows):
        return _("Nothing beats {baseline}", baseline=joined(names[:2], _(", ")))
    return _(
        "Nothing was shown to beat {baseline}; {open} of {count} comparisons are open",
        baseline=joined(names[:2], _(", ")), open=len(rows) - len(decided), count=len(rows),
    )  # fmt: skip


def question(rows: Sequence[ForestRow], results: Results) -> str:
    """Return the title of the section with the largest significant gain, or of the only section."""
    better = [row.section for row in rows if row.verdict == "better"]
    titles = [section.title for section in results.study.sections]
    return better[0] if better else titles[0] if len(titles) == 1 else ""


def setting(results: Results, compared: Sequence[PrimaryComparison], share: bool) -> Text:
    """Describe encoder, data, numbers of texts and seeds, and the baseline's score."""
    study, parts = results.study, list[Text]()
    cells = [cell for section in results.study.sections for row in section.rows for cell in row.cells]
    counts = {
        split: dict(by_class)
        for split, by_class in counts_of(results, [c for c in cells if c in results.cells]).items()
    }
    encoder, data = source_name(study.encoder), study.source if study.foreign else source_name(study.source)
    parts.append(_("{encoder} on {data}", encoder=encoder, data=data) if encoder else data)
    if "train" in counts and "test" in counts:
        train, test = (sum(counts[split].values()) for split in ("train", "test"))
        parts.append(_("{train} training, {test} test texts", train=train, test=test))
    seeds = sorted({len(row.seeds) for section in results.study.sections for row in section.rows})
    if seeds:
        few_many = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]}–{seeds[-1]}"
        parts.append(n_("{seeds} seed", "{seeds} seeds", seeds[-1], seeds=few_many))
    sentences = [_("{parts}.", parts=joined(parts, _(", ")))]
    baselines = dict.fromkeys(tuple(each.comparison.against.cells) for each in compared)
    if len(baselines) == 1:
        name, level = score_name(metric_of(compared[0].score.value)), compared[0].level
        shown = f"{100 * level:.1f} %" if share else f"{level:.4g}"
        label = compared[0].comparison.against.label
        sentences.append(_("Baseline {label}: {score} {level}.", label=label, score=name, level=shown))
    return joined(sentences, _(" "))


def source_name(name: str) -> str:
    """Return the last part of a source: `tweets.csv` for file:/somewhere/tweets.csv."""
    return name.partition("@")[0].partition(":")[2].rpartition("/")[2] or name


def limits(rows: Sequence[ForestRow]) -> list[Text]:
    """Say what the intervals on the first screen are."""
    notes = list[Text]()
    if any(math.isfinite(row.half_width) for row in rows):
        notes.append(_("±: half of a 95 % interval, joint by question."))
    return notes


def running(results: Results) -> Text | None:
    """Return the progress while cells are running, else None."""
    if results.progress is None:
        return None
    ended, total = results.progress
    return _("Preliminary: {ended} of {total} cells have ended", ended=ended, total=total)


def next_step(
    rows: Sequence[ForestRow], results: Results, cheapest: PrimaryComparison | None, no_baseline: str
) -> tuple[Text, str]:
    """Suggest a next step, and the command for it."""
    if results.progress is not None:
        return _("Nothing is compared until all cells have ended. What is left:"), "ablate plan FILE"
    if results.study.foreign:
        return next_in_table(rows, cheapest, no_baseline), results.study.command  # shown if there is a command
    cells = [cell for section in results.study.sections for row in section.rows for cell in row.cells]
    if any(cell not in results.cells or results.cells[cell].status not in ("finished", "diverged") for cell in cells):
        return _("Next, what is missing:"), "ablate run FILE"
    if no_baseline and not rows:
        return _("Next, write one into the file, such as {baseline}:", baseline=no_baseline), "ablate run FILE"
    if any(row.verdict == "one seed" for row in rows):
        return _("Next, seeds for what is open:"), "ablate run FILE --until-decided"
    if cheapest is not None and (needs := cheapest.comparison.needs) is not None:
        label, needed = cheapest.score.row.label, what_decides(cheapest.comparison)
        if needs.seeds is not None:
            more = f" --max-seeds {needs.seeds}" if needs.seeds > MAX_SEEDS else ""
            command = f"ablate run FILE --until-decided{more}"
            time = each_time(cheapest.comparison)
            return _("Next, {seeds} seeds{time} for {label}:", label=label, seeds=needs.seeds, time=time), command
        return _("Next, {label} needs {needs} (evaluation: {{test: {texts}}} in the file):",
                 label=label, needs=needed, texts=needs.texts), "ablate run FILE"  # fmt: skip
    return _("Next, add rows to the file and see what they cost:"), "ablate plan FILE"


def each_time(comparison: Comparison) -> Text:
    """Return the time that the seeds of a comparison take, in brackets; empty if it is unknown."""
    known = math.isfinite(comparison.needs_seconds)
    return _(" ({time})", time=duration(comparison.needs_seconds)) if known else ""


def next_in_table(rows: Sequence[ForestRow], cheapest: PrimaryComparison | None, no_baseline: str) -> Text:
    """Suggest what to add to another program's table; the command builds the report again."""
    if no_baseline and not rows:
        return _("Next, name a baseline:")
    if any(row.verdict == "one seed" for row in rows):
        return _("Next, add at least one more seed of each row to the table, then:")
    if cheapest is not None:
        label, needed = cheapest.score.row.label, what_decides(cheapest.comparison)
        return _("Next, add more seeds to the table ({label} needs {needs}), then:", label=label, needs=needed)
    return _("Next, add rows or seeds to the table, then:")
