"""First screen of a report: headline, setting, next step, and a chart of the primary score's comparisons."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from contrastive.errors import brief
from reports.answers import Answer, answers, winner
from reports.chosen import given_rows
from reports.compare import Places, Section
from reports.forest import Chart, ForestRow, Group, PrimaryComparison, forest_rows, grouped, reference_rows
from reports.guards import Guard
from reports.markdown import SPLITS, split_of, unit
from reports.messages import _, listed, n_
from reports.next_step import NextStep, next_step
from reports.provenance import cells_by_data, counts_of
from reports.questions import Question, baseline_rows, mean_rows, question_anchor
from reports.study import Results, Study
from reports.tables import WORDS

MOST = 12  # rows on the first screen; if there are more, the best and the worst
CAVEATS = 2  # most caveats on the first screen
LONGEST_TASK = 120  # characters
ORDER = ("better", "worse", "equivalent", "undecided")


@dataclass(frozen=True)
class Overview:
    """Content of the first screen."""

    task: str  # what the experiment is about, in its author's words
    answers: list[Answer]  # to each question that was asked
    state: str  # why nothing is answered, if something was asked
    setting: str
    chart: Chart
    left_out: str  # summary of the rows between the best and the worst ones
    legend: list[str]
    caveats: list[str]
    warnings: int
    next: NextStep
    origin: str  # day, commit and author

    @property
    def headline(self) -> str:
        """The finding in a line, or in one for each question."""
        if len(self.answers) == 1:
            return self.answers[0].words
        return "\n".join(f"{answer.question} {answer.words}" for answer in self.answers) or self.state or self.task

    @property
    def placed(self) -> dict[str, str]:
        """The answers that stand at their question in the chart, if there are several."""
        titles = {group.title for group in self.chart.groups} if len(self.answers) > 1 else set[str]()
        return {answer.question: answer.beside_rows for answer in self.answers if answer.question in titles}


def overview(
    results: Results,
    sections: Sequence[Section],
    anchors: Sequence[str],
    caveats: Sequence[Sequence[Guard]] = (),
    warnings: int = 0,
    forbidding: Sequence[str] = (),
    questions: Sequence[Question] = (),
) -> Overview:
    """Return the first screen. `caveats`: limits of each section's findings; the first few are shown, beginning with
    the headline's. `warnings`: number of notes above tables. `forbidding`: notes that forbid to rank rows. `questions`:
    those asked in several settings, whose means are shown instead of the settings' rows."""
    score = primary(results, sections)
    compared = [
        PrimaryComparison(row_score, comparison, section, anchor)
        for section, anchor in zip(sections, anchors, strict=True)
        for row_score, comparison in section.comparisons
        if row_score.value == score and math.isfinite(comparison.difference) and not row_score.row.variant
    ]
    anchor_of = {question.title: question_anchor(number) for number, question in enumerate(questions)}
    with_mean = [question for question in questions if score in question.means]
    averaged = [mean_rows(question, score, anchor_of[question.title], results) for question in with_mean]
    beside = [baseline_rows(question, score, anchor_of[question.title], results) for question in with_mean]
    in_questions = {section.recorded.title for question in with_mean for section in question.sections}
    alone = [pair for pair in compared if pair.section.recorded.title not in in_questions]
    rows = [*forest_rows(alone, results), *(row for each in averaged for row in each)]
    best = winner(rows)
    chart, left_out = chart_of([row for row in rows if not row.parts], alone, results)
    if with_mean:
        chart = with_means(chart, averaged, beside, [pair for pair in compared if pair not in alone])
    has_baseline = any(row.baseline for section in sections for row in section.rows)
    nothing = _("Nothing is compared.") if has_baseline and not rows else ""
    is_night = results.study.foreign is not None and not results.study.foreign.command
    return Overview(
        task=task(results.study),
        answers=answers(sections, questions, score, results) if rows and not is_night else [],
        state=_("{counts}.", counts=counted(row.verdict for row in rows)) if rows and is_night else nothing,
        setting=setting(results, score),
        chart=chart,
        left_out=left_out,
        legend=explanations(chart),
        caveats=[*forbidding[:CAVEATS], *first_caveats(caveats, anchors, best)],
        warnings=warnings,
        next=next_step(rows, results, compared),
        origin=origin(results),
    )


def chart_of(rows: Sequence[ForestRow], compared: Sequence[PrimaryComparison], results: Results) -> tuple[Chart, str]:
    """Return the chart of the best and the worst rows, and a summary of the rows between them."""
    every = sorted([*rows, *reference_rows(compared, results)], key=lambda row: -row.gain)
    several_questions = len({row.section for row in rows}) > 1 and len({row.beside for row in rows}) > 1
    shown = best_and_worst(every, 2 * MOST if several_questions else MOST)
    score = compared[0].score.value if compared else ""
    margins = [pair.score.margin for pair in compared if pair.score.margin is not None]
    margin = unit(score) * margins[0] if margins else None
    between = [row.verdict for row in every if row not in shown]
    left_out = _("{count} more rows in their sections: {verdicts}", count=len(between), verdicts=counted(between))
    places = compared[0].section.places(score) if compared else Places(None, None)
    return Chart(score, margin, grouped(shown, compared, results), places), left_out if between else ""


def with_means(
    chart: Chart,
    averaged: Sequence[list[ForestRow]],
    baselines: Sequence[list[ForestRow]],
    compared: Sequence[PrimaryComparison],
) -> Chart:
    """Add a group for each question that is asked in several settings, with its means below its baselines."""
    means = [
        Group(rows[0].section, rows[0].anchor, [*heads, *best_and_worst(rows, MOST)])
        for heads, rows in zip(baselines, averaged, strict=True)
        if rows
    ]
    margins = [unit(pair.score.value) * pair.score.margin for pair in compared if pair.score.margin is not None]
    score = chart.score or (compared[0].score.value if compared else "")
    margin = chart.margin if chart.margin is not None else next(iter(margins), None)
    places = compared[0].section.places(score) if compared else chart.places
    return replace(chart, score=score, margin=margin, groups=[*means, *chart.groups], places=places)


def best_and_worst(rows: list[ForestRow], most: int) -> list[ForestRow]:
    return rows if len(rows) <= most else [*rows[: MOST // 2], *rows[-MOST // 2 :]]


def counted(verdicts: Iterable[str]) -> str:
    """Count each verdict: `2 better, 1 worse`."""
    counts = Counter(verdicts)
    order = [*(word for word in ORDER if word in counts), *(word for word in counts if word not in ORDER)]
    return _(", ").join([_("{count} {verdict}", count=counts[word], verdict=_(WORDS[word])) for word in order])


def first_caveats(caveats: Sequence[Sequence[Guard]], anchors: Sequence[str], best: ForestRow | None) -> list[str]:
    """Return the first caveats of unlike kinds, those of the headline's section before others."""
    ordered = sorted(zip(anchors, caveats, strict=False), key=lambda pair: not (best and pair[0] == best.anchor))
    by_kind = dict[str, str]()
    for _anchor, guards in ordered:
        for guard in guards:
            by_kind.setdefault(guard.kind, guard.words)
    return [*by_kind.values()][:CAVEATS]


def primary(results: Results, sections: Sequence[Section]) -> str:
    """Return the declared primary score if it is compared, else the first compared score."""
    compared = [score.value for section in sections for score, _comparison in section.comparisons]
    declared = results.study.primary
    return declared if declared in compared else next(iter(compared), "")


def task(study: Study) -> str:
    """Return the first sentence of the description, or the name."""
    return brief(re.split(r"(?<=[.!?])\s|(?<=[。！？])", study.description.strip())[0], LONGEST_TASK) or study.name


def setting(results: Results, score: str) -> str:
    """Describe encoder, data, and numbers of seeds and of the texts that a score is measured on."""
    study = results.study
    rows = [row for section in study.sections for row in section.rows]
    counts = dict[str, list[int]]()  # of each data set
    for cells in cells_by_data(results).values():
        for split, by_class in counts_of(results, cells).items():
            counts.setdefault(split, []).append(sum(by_class.values()))
    sizes = {split: "–".join(map(str, sorted({min(each), max(each)}))) for split, each in counts.items()}
    parts = [_("{encoder} on {data}", encoder=study.encoder, data=study.source) if study.encoder else study.source]
    tested = split_of(score)
    texts = [_("{count} {split}", count=sizes[split], split=_(SPLITS[split]))
             for split in dict.fromkeys(("train", tested)) if split in sizes]  # fmt: skip
    if texts:
        parts.append(_("{sizes} examples", sizes=listed(texts)))
    if study.chosen and study.choice:
        tried = _(" or ").join(str(count) for count in sorted({len(each.tried) for each in study.chosen if each.tried}))
        words = _("each row's {names} the best of {tried} values", tried=tried, names=listed(study.choice.names))
        given = given_rows(study)
        parts.append(_("{words}, but given for {rows}", words=words, rows=listed(given)) if given else words)
    if seeds := sorted({len(row.seeds) for row in rows}):
        few_many = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]}–{seeds[-1]}"
        parts.append(n_("{seeds} seed", "{seeds} seeds", seeds[-1], seeds=few_many))
    return _("{parts}.", parts=_(", ").join(parts))


def explanations(chart: Chart) -> list[str]:
    """Say what the lines, marks and dots on the first screen are."""
    lines = [line for group in chart.groups for line in group.lines]
    with_lines = [row for row, _is_part in lines if math.isfinite(row.half_width)]
    words = {row.verdict for row in with_lines}
    band = "" if chart.margin is None else f"{chart.margin:g}"
    if not with_lines:
        return [_("Grey band: ± {margin}, too little to matter.", margin=band)] if band else []
    notes = []
    if words & {"better", "worse"}:
        notes.append(_("Better, worse: the interval excludes 0."))
    if band:
        notes.append(_("Equivalent: it lies in the grey band, ± {margin}.", margin=band))
    if "undecided" in words:
        notes.append(_("Undecided: neither."))
    if any(row.perhaps_negligible for row in with_lines):
        notes.append(_("Possibly negligible: it reaches into the band."))
    if any(is_part for _row, is_part in lines):
        notes.append(_("Diamonds: means over data sets; below them, each data set."))
    elif any(row.parts for row in chart.rows):
        notes.append(_("Diamonds: means over data sets."))
    if any(math.isfinite(row.level_deviation) for row, _is_part in lines):
        notes.append(_("Parentheses: standard deviation."))
    notes.append(_("±: 95 % interval, all rows at once."))
    if any(row.seeds for row in chart.rows):
        notes.append(_("Dots: seeds."))
    if not all(row.has_its_levels for row in with_lines if row.against and not row.parts):
        notes.append(_("Differences are those of common seeds."))
    return notes


def origin(results: Results) -> str:
    """Return the day of the last run, the commit if all share one, and the author if the file names one."""
    provenances = [p for run in results.cells.values() if (p := run.provenance)]
    days, commits = sorted(filter(None, (p.finished for p in provenances))), {p.commit for p in provenances}
    commit = commits.pop() if len(commits) == 1 else ""
    parts = [days[-1] if days else "", _("commit {commit}", commit=commit) if commit else "", results.study.author]
    return " · ".join([part for part in parts if part])
