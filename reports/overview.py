"""First screen of a report: headline, setting, next step, and a chart of the primary score's comparisons."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from contrastive.config.scores import title_of
from contrastive.errors import brief
from reports.compare import Comparison, Section, judge
from reports.forest import Chart, ForestRow, Group, PrimaryComparison, forest_rows, grouped, reference_rows, winner
from reports.guards import Guard
from reports.markdown import (
    SPLITS,
    common_places,
    difference_text,
    fixed,
    most_of,
    score_name,
    split_of,
    unit,
    with_unit,
)  # fmt: skip
from reports.messages import N_, _, listed, n_
from reports.next_step import NextStep, next_step
from reports.provenance import cells_by_data, counts_of
from reports.questions import Question, mean_rows, on_others, question_anchor
from reports.statistics.decide import DECIDED
from reports.study import Results, Study
from reports.tables import WORDS

MOST = 12  # rows on the first screen; if there are more, the best and the worst
CAVEATS = 2  # most caveats on the first screen
LONGEST_TASK = 120  # characters
ORDER = ("better", "worse", "equivalent", "undecided")
BESIDE_NEXT_BEST = {  # verdict → what the headline says of the next best row
    "better": N_("also better than {label} ({size})"),
    "equivalent": N_("equivalent to {label} ({size})"),
    **dict.fromkeys(("not comparable", "no spread", "one seed"), N_("not compared with {label}")),
}
UNTESTED = {  # verdict of all rows → headline
    "one seed": N_("With one seed, no difference can be tested"),
    "not comparable": N_("Nothing can be compared; the warnings say why"),
}


@dataclass(frozen=True)
class Overview:
    """Content of the first screen."""

    task: str  # what the experiment is about, in its author's words
    headline: str
    setting: str
    chart: Chart
    left_out: str  # summary of the rows between the best and the worst ones
    notes: list[str]
    warnings: int
    next: NextStep
    origin: str  # day, commit and author


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
    questions = [question for question in questions if score in question.means]
    averaged = [mean_rows(question, score, anchor_of[question.title]) for question in questions]
    in_questions = {section.recorded.title for question in questions for section in question.sections}
    alone = [pair for pair in compared if pair.section.recorded.title not in in_questions]
    rows = [*forest_rows(alone, results), *(row for each in averaged for row in each)]
    best, second, no_baseline = winner(rows), next_best(rows, compared, results), missing_baseline(sections)
    if best:
        headline = [gain(best, rows, score), beside_next_best(second), worse_elsewhere(best, score, sections)]
    else:
        headline = [no_gain(rows, no_baseline), in_other_scores(score, sections)]
    chart, left_out = chart_of([row for row in rows if not row.by_setting], alone, results)
    if questions:
        chart = with_means(chart, averaged, [pair for pair in compared if pair not in alone])
        headline += [over_data_sets(questions), *in_both(questions, averaged)] if rows else []
    return Overview(
        task=task(results.study),
        headline=_("; ").join(filter(None, headline)),
        setting=" ".join(filter(None, (setting(results, score), definitions(sections, results.study)))),
        chart=chart,
        left_out=left_out,
        notes=[
            *on_others(questions, score),
            *forbidding[:CAVEATS],
            *explanations(chart),
            *first_caveats(caveats, anchors, best),
        ],
        warnings=warnings,
        next=next_step(rows, results, compared, no_baseline, second),
        origin=origin(results),
    )


def chart_of(rows: Sequence[ForestRow], compared: Sequence[PrimaryComparison], results: Results) -> tuple[Chart, str]:
    """Return the chart of the best and the worst rows, and a summary of the rows between them."""
    every = sorted([*rows, *reference_rows(compared, results)], key=lambda row: -row.gain)
    most = 2 * MOST if has_several_questions(rows) else MOST
    shown = best_and_worst(every, most)
    score = compared[0].score.value if compared else ""
    margins = [pair.score.margin for pair in compared if pair.score.margin is not None]
    margin = unit(score) * margins[0] if margins else None
    between = [row.verdict for row in every if row not in shown]
    left_out = _("{count} more rows in their sections: {verdicts}", count=len(between), verdicts=counted(between))
    return Chart(score, margin, grouped(shown, compared, results)), left_out if between else ""


def with_means(chart: Chart, averaged: Sequence[list[ForestRow]], compared: Sequence[PrimaryComparison]) -> Chart:
    """Add a group for each question that is asked in several settings, with its means."""
    means = [Group(rows[0].section, rows[0].anchor, best_and_worst(rows, MOST)) for rows in averaged if rows]
    margins = [unit(pair.score.value) * pair.score.margin for pair in compared if pair.score.margin is not None]
    score = chart.score or (compared[0].score.value if compared else "")
    margin = chart.margin if chart.margin is not None else next(iter(margins), None)
    return replace(chart, score=score, margin=margin, groups=[*means, *chart.groups])


def over_data_sets(questions: Sequence[Question]) -> str:
    counts = sorted({question.data_sets for question in questions})
    few_many = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]}–{counts[-1]}"
    return _("means over {count} data sets", count=few_many)


def in_both(questions: Sequence[Question], averaged: Sequence[list[ForestRow]]) -> list[str]:
    """Return the verdicts in each setting of the best rows of questions on two data sets, whose mean says little."""
    words = list[str]()
    for question, rows in zip(questions, averaged, strict=True):
        if question.data_sets == 2 and rows:
            named = [
                _("{setting} {verdict}", setting=setting, verdict=_(WORDS[word]))
                for setting, word in zip(question.settings, rows[0].verdicts, strict=True)
            ]
            words.append(_("{label}: {verdicts}", label=rows[0].label, verdicts=_(", ").join(named)))
    return words


def best_and_worst(rows: list[ForestRow], most: int) -> list[ForestRow]:
    return rows if len(rows) <= most else [*rows[: MOST // 2], *rows[-MOST // 2 :]]


def has_several_questions(rows: Sequence[ForestRow]) -> bool:
    """Return whether the rows belong to several questions with their own baselines."""
    return len({row.section for row in rows}) > 1 and len({row.beside for row in rows}) > 1


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


def missing_baseline(sections: Sequence[Section]) -> str:
    """Suggest a `baseline` setting if no section compares anything for lack of one; else an empty text."""
    several = [section for section in sections if len([row for row in section.rows if not row.variant]) > 1]
    rows = [row for section in several for row in section.rows if not row.variant]
    return f"baseline: {rows[0].label}" if rows and all(row.recorded.against is None for row in rows) else ""


def gain(best: ForestRow, rows: Sequence[ForestRow], score: str) -> str:
    """Return the largest significant gain, and how many rows are better too."""
    size = with_unit(difference_text(best.difference, best.half_width, most_of(score)), unit(score) > 1)
    beats = _("{label} beats {against}: {size}", label=best.label, against=best.against, size=levels(best, score, size))
    if best.perhaps_negligible:
        beats = _("{beats} (possibly negligible)", beats=beats)
    if has_several_questions(rows):  # the gain answers only one of them
        counts = counted(row.verdict for row in rows)
        return _("{verdicts}. {section}: {beats}", verdicts=counts, section=best.section, beats=beats)
    others = len({row.cells for row in rows if row.verdict == "better"}) - 1
    more = n_("{count} other row is better too", "{count} other rows are better too", others)
    return _("; ").join([beats, more]) if others else beats


def levels(row: ForestRow, score: str, size: str) -> str:
    """Return a difference with the means that it lies between, if it is theirs."""
    places, name = common_places([(row.difference, row.half_width)]), score_name(title_of(score))
    if unit(score) == 1 or places is None or not row.has_its_levels:
        return _("{score} {size}", score=name, size=size)
    ends = {"before": fixed(row.baseline_level, places), "after": fixed(row.level, places)}
    return _("{score} {before} → {after} %, {size}", score=name, size=size, **ends)


def no_gain(rows: Sequence[ForestRow], no_baseline: str) -> str:
    """Summarize comparisons of which none is a gain."""
    if not rows:
        no_section = _("Nothing is compared: no section names a baseline")
        return no_section if no_baseline else _("Nothing is compared yet")
    verdicts = {row.verdict for row in rows}
    if len(verdicts) == 1 and rows[0].verdict in UNTESTED:
        return _(UNTESTED[rows[0].verdict])
    undecided = len([row for row in rows if row.verdict not in DECIDED])
    if undecided == len(rows):
        return n_("{count} comparison is undecided", "None of {count} comparisons is decided", undecided)
    baselines = _(", ").join([*dict.fromkeys(row.against for row in rows)][:2])
    if not undecided:
        return _("Nothing beats {baseline}", baseline=baselines)
    return _(
        "Nothing was shown to beat {baseline}; {open} of {count} comparisons are undecided",
        baseline=baselines, open=undecided, count=len(rows),
    )  # fmt: skip


def in_other_scores(score: str, sections: Sequence[Section]) -> str:
    """Count the rows that are better or worse in scores other than the primary one; empty if there are none."""
    verdicts = {
        (other.value, tuple(other.row.cells), tuple(comparison.against.cells)): other.verdict
        for section in sections
        for other, comparison in section.comparisons
        if other.value != score and not other.row.variant
    }
    clear = [word for word in verdicts.values() if word in ("better", "worse")]
    return _("in other scores: {verdicts}", verdicts=counted(clear)) if clear else ""


def worse_elsewhere(best: ForestRow, score: str, sections: Sequence[Section]) -> str:
    """Name the other scores in which the row with the largest gain is worse."""
    names = dict.fromkeys(
        score_name(title_of(other.value))
        for section in sections
        for other, comparison in section.comparisons
        if (tuple(other.row.cells), tuple(comparison.against.cells)) == (best.cells, best.beside)
        if other.verdict == "worse" and other.value != score and not other.row.variant
    )
    return _("worse in {scores}", scores=listed([*names])) if names else ""


def next_best(
    rows: Sequence[ForestRow], compared: Sequence[PrimaryComparison], results: Results
) -> PrimaryComparison | None:
    """Compare the row with the largest gain with the next best of its section, by the intervals of all pairs; None if
    that is its baseline."""
    best = winner(rows)
    ours = next((pair for pair in compared if best and (pair.anchor, pair.cells) == (best.anchor, best.cells)), None)
    if ours is None:
        return None
    section, score, sign = ours.section, ours.score, 1 if ours.score.higher else -1
    others = [
        other
        for other in section.scores
        if other.value == score.value and not other.row.variant and other.row.data == score.row.data
        and other.row.number != score.row.number and math.isfinite(other.mean)
    ]  # fmt: skip
    second = max(others, key=lambda other: sign * other.mean, default=None)
    if second is None or second.row.number == ours.comparison.against.number:
        return None
    pair = Comparison(second.row, 0, score.mean - second.mean, False)
    for (first, other), (decided, group) in section.pairs.get(score.value, {}).items():
        if {first, other} == {score.row.number, second.row.number}:
            size = decided.difference * (1 if first == score.row.number else -1)
            pair = judge(Comparison(second.row, decided.seeds, size, False), score, decided, group, results)
            pair = replace(pair, needs_seconds=math.nan)  # the next step tells the time of the whole file
    return PrimaryComparison(replace(score, comparison=pair), pair, section, ours.anchor)


def beside_next_best(second: PrimaryComparison | None) -> str:
    """Say whether the row with the largest gain was told from the next best."""
    if second is None:
        return ""
    pair, score = second.comparison, second.score.value
    size = difference_text(unit(score) * pair.difference, unit(score) * pair.half_width, most_of(score))
    words = BESIDE_NEXT_BEST.get(pair.verdict, N_("undecided against {label} ({size})"))
    return _(words, label=pair.against.label, size=size)


def task(study: Study) -> str:
    """Return the first sentence of the description, or the name."""
    return brief(re.split(r"(?<=[.!?])\s|(?<=[。！？])", study.description.strip())[0], LONGEST_TASK) or study.name


def setting(results: Results, score: str) -> str:
    """Describe encoder, data, and numbers of seeds and of the texts that a score is measured on."""
    study = results.study
    rows = [row for section in study.sections for row in section.rows]
    counts = dict[str, list[str]]()  # of each data set
    for cells in cells_by_data(results).values():
        for split, by_class in counts_of(results, cells).items():
            counts.setdefault(split, []).append(str(sum(by_class.values())))
    sizes = {split: _(" or ").join([*dict.fromkeys(numbers)]) for split, numbers in counts.items()}
    parts = [_("{encoder} on {data}", encoder=study.encoder, data=study.source) if study.encoder else study.source]
    if "train" in sizes:
        unlike = any(row.drawn for row in rows) or len(counts["train"]) > 1
        same = N_("the same {train} training examples in every run")
        parts.append(_(N_("{train} training examples") if unlike else same, train=sizes["train"]))
    if (split := split_of(score)) in sizes and split != "train":
        parts.append(_("{count} {split} examples", count=sizes[split], split=_(SPLITS[split])))
    if study.chosen and study.choice:
        tried = _(" or ").join(str(count) for count in sorted({len(each.tried) for each in study.chosen}))
        parts.append(
            _("each row at its best of {tried} values of {names}", tried=tried, names=listed(study.choice.names))
        )
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


def explanations(chart: Chart) -> list[str]:
    """Say what the lines, marks and dots on the first screen are."""
    shaded = "" if chart.margin is None else f"{chart.margin:g}"
    with_lines = [row for row in chart.rows if math.isfinite(row.half_width)]
    if not with_lines:
        return [_("Shaded: ± {margin}, negligible.", margin=shaded)] if shaded else []
    within = _("; equivalent: within ± {margin} (shaded); possibly negligible: reaches in", margin=shaded)
    notes = [_("Better, worse: line excludes 0{within}.", within=within if shaded else "")]
    if any(row.by_setting for row in chart.rows):
        notes.append(_("Diamonds: means over data sets; below, each of these."))
    if any(row.seeds for row in chart.rows):
        notes.append(_("Dots: seeds."))
    if not all(row.has_its_levels for row in with_lines if not row.by_setting):
        notes.append(_("Differences: of common seeds."))
    return notes


def origin(results: Results) -> str:
    """Return the day of the last run, the commit if all share one, and the author if the file names one."""
    provenances = [p for run in results.cells.values() if (p := run.provenance)]
    days, commits = sorted(filter(None, (p.finished for p in provenances))), {p.commit for p in provenances}
    commit = commits.pop() if len(commits) == 1 else ""
    parts = [days[-1] if days else "", _("commit {commit}", commit=commit) if commit else "", results.study.author]
    return " · ".join([part for part in parts if part])
