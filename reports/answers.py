"""Answers to the questions of a report: which row to use, or what is known where none is better."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from reports.compare import RowScore, Section
from reports.forest import ForestRow
from reports.markdown import difference_text, most_of, score_text, unit, with_unit
from reports.messages import N_, _, listed, n_
from reports.questions import Question, RowMean, perhaps_negligible
from reports.rows import references_of, row_cost
from reports.study import Results
from reports.tables import WORDS, is_negligible, verdict_text

NAMED = 3  # rows that an answer names; the others are counted
SAME_COST = 0.05  # share below which two costs are called the same
UNTESTED = {  # verdict of all rows → answer
    "one seed": N_("With one seed, no difference can be tested."),
    "no spread": N_("No difference can be tested, since the seeds do not vary."),
    "not comparable": N_("Nothing can be compared; the warnings say why."),
}
ORDER = ("worse", "equivalent", "undecided")


@dataclass(frozen=True)
class Answer:
    """The answer to one question."""

    question: str
    finding: str  # which row to use, or what is known of each
    short: str  # the same beside the rows' own verdicts
    more: list[str]  # what else the reader has to know
    above: list[str]  # references that score above the rows, unless an earlier answer says so

    @property
    def words(self) -> str:
        return " ".join(filter(None, [self.finding, *self.more, *self.above]))

    @property
    def beside_rows(self) -> str:
        return " ".join([self.short, *self.more, *self.above])


@dataclass(frozen=True)
class Line:
    """A row's difference to its baseline in display units, in one section or over data sets."""

    label: str
    against: str
    verdict: str
    gain: float
    half_width: float
    size: str  # the difference with its interval, in points if the score is a share
    perhaps_negligible: bool = False
    where: str = ""  # over which data sets it is a mean


Gaining = TypeVar("Gaining", Line, ForestRow)


def answers(sections: Sequence[Section], questions: Sequence[Question], value: str, results: Results) -> list[Answer]:
    """Return the answers in the file's order: over data sets where a question has a mean, else section by section."""
    averaged = {
        section.recorded.title: question
        for question in questions
        if question.means.get(value)
        for section in question.sections
    }
    found = dict[str, Answer]()
    for section in sections:
        question = averaged.get(section.recorded.title)
        if question is not None and question.title in found:
            continue
        said = answer(section, results, value) if question is None else answer_over_data(question, value, results)
        if said.words:
            told = {words for other in found.values() for words in other.above}
            said = replace(said, above=[words for words in said.above if words not in told])
            found.setdefault(said.question, said)
    return [*found.values()]


def answer(section: Section, results: Results, value: str = "") -> Answer:
    """Return the answer of a section in a score (default: the first tested one), without words if nothing is compared
    in it."""
    value = value if value in section.tested else next(iter(section.tested), "")
    compared = [
        (score, comparison)
        for score, comparison in section.comparisons
        if score.value == value and not score.row.variant
    ]
    places = section.places(value).difference
    lines = [
        Line(
            score.row.label,
            comparison.against.label,
            score.verdict,
            comparison.difference if score.higher else -comparison.difference,
            comparison.half_width,
            size_text(value, comparison.difference, comparison.half_width, places),
            is_negligible(score),
        )
        for score, comparison in compared
    ]
    best = winner(lines)
    if best is None:
        words = without_winner(lines)
    else:
        score = next(score for score, _comparison in compared if score.row.label == best.label)
        equal = [other for other in section.scores if other.value == value and other.bold and other != score]
        ties = [other.row.label for other in sorted(equal, key=lambda other: abs(other.mean - score.mean))]
        words = recommendation(best, value, training_time([score], results), ties)
    winning = best.label if best else lines[0].against if lines else ""
    above = above_rows(section, value, winning, results)
    return Answer(section.recorded.title, words, words if best else in_short(lines), keeping(lines), above)


def answer_over_data(question: Question, value: str, results: Results) -> Answer:
    """Return the answer of a question that is asked in several settings: on its data sets, and for another one."""
    means, places = question.means[value], question.sections[0].places(value).difference
    where = n_("on this data set", "on average over {count} data sets", question.data_sets)
    lines = [line_of_mean(row, value, places, where) for row in means]
    best = winner(lines)
    if best:
        time = training_time([*means[lines.index(best)].scores.values()], results)
        least = best.gain - best.half_width
        ties = [line.label for line in lines if line != best and line.gain + line.half_width >= least]
        finding = recommendation(best, value, time, ties)
    else:
        finding = without_winner(lines, question.data_sets)
    more = [*keeping(lines), *(verdicts_on_each(means) if question.data_sets == 2 else [])]
    more += on_another_data_set(means, value, places)
    short = finding if best else in_short(lines, question.data_sets)
    return Answer(question.title, finding, short, more, above_every_row(question, value, results))


def verdicts_on_each(means: Sequence[RowMean]) -> list[str]:
    """`SupCon: tweets better, reviews undecided; R-Drop: worse on both.`, for the rows with the largest differences."""
    parts = []
    for row in sorted(means, key=lambda row: -abs(row.mean.difference))[:NAMED]:
        verdicts = {name: _(WORDS[score.verdict]) for name, score in row.scores.items()}
        each = [_("{setting} {verdict}", setting=name, verdict=verdict) for name, verdict in verdicts.items()]
        both = [_("{verdict} on both", verdict=verdict) for verdict in set(verdicts.values())]
        texts = both if len(both) == 1 else each
        parts.append(_("{label}: {verdicts}", label=row.label, verdicts=_(", ").join(texts)))
    return [_("{text}.", text=_("; ").join(parts))]


def on_another_data_set(means: Sequence[RowMean], value: str, places: int | None) -> list[str]:
    """Name the rows whose verdict for another data set like these is another one than on these."""
    unlike = dict[str, list[str]]()
    for row in means:
        if row.general and row.general != row.verdict:
            unlike.setdefault(_(WORDS[row.general]), []).append(row.label)
    if len(means) == 1:
        size = size_text(value, means[0].mean.difference, means[0].mean.general, places)
        return [
            _("On average over data sets like these: {size}, {verdict}.", size=size, verdict=verdict)
            for verdict in unlike
        ]
    parts = [_("{verdict}: {rows}", verdict=verdict, rows=listed(rows, NAMED)) for verdict, rows in unlike.items()]
    return [_("On average over data sets like these, {verdicts}.", verdicts=_("; ").join(parts))] if parts else []


def above_every_row(question: Question, value: str, results: Results) -> list[str]:
    """Name the settings in which a reference, such as TF-IDF, scores above every row."""
    settings = dict[str, list[str]]()
    for section in question.sections:
        scores = [score for score in section.scores if score.value == value and not score.row.variant]
        sign = 1 if scores[0].higher else -1
        for name, reference in references_of(section.recorded, results).items():
            if value in reference and all(sign * reference[value] > sign * score.mean for score in scores):
                settings.setdefault(name, []).append(section.recorded.setting)
    return [
        _("On {settings}, {reference} scores above every row.", settings=listed(found), reference=name)
        for name, found in settings.items()
    ]


def line_of_mean(row: RowMean, value: str, places: int | None, where: str) -> Line:
    gain = row.mean.difference if row.first.higher else -row.mean.difference
    size = size_text(value, row.mean.difference, row.mean.half_width, places)
    half_width = row.mean.half_width
    return Line(row.label, row.against, row.verdict, gain, half_width, size, perhaps_negligible(row), where)


def size_text(value: str, difference: float, half_width: float, places: int | None) -> str:
    if not math.isfinite(difference):
        return ""
    scale = unit(value)
    return difference_text(scale * difference, scale * half_width, most_of(value), places)


def winner(lines: Sequence[Gaining]) -> Gaining | None:
    """Return the line or row with the largest significant gain."""
    return max((line for line in lines if line.verdict == "better"), key=lambda line: line.gain, default=None)


def recommendation(best: Line, value: str, time: str, ties: Sequence[str]) -> str:
    """`Use Four blocks: +2.0 ± 1.5 points over Two blocks, for 1.9 × the training time; Six may be as good.`"""
    size = with_unit(best.size, unit(value) > 1)
    size = _("{size} (possibly negligible)", size=size) if best.perhaps_negligible else size
    words = _("Use {label}: {size} over {against}", label=best.label, size=size, against=best.against)
    text = _(", ").join(filter(None, [" ".join(filter(None, [words, best.where])), time]))
    if ties:
        return _("{text}; {rows} may be as good.", text=text, rows=listed(ties, NAMED))
    return _("{text}.", text=text)


def without_winner(lines: Sequence[Line], data_sets: int = 1) -> str:
    """Say of each row what is known, where none is better."""
    if not lines:
        return ""
    verdicts = {line.verdict for line in lines}
    if len(verdicts) == 1 and lines[0].verdict in UNTESTED:
        return _(UNTESTED[lines[0].verdict])
    text = _("{text}.", text=with_verdicts(lines))
    return _("On average over {count} data sets, {rows}", count=data_sets, rows=text) if data_sets > 1 else text


def keeping(lines: Sequence[Line]) -> list[str]:
    """Recommend the baseline if every row is worse or equivalent."""
    baselines = {line.against for line in lines}
    settled = bool(lines) and {line.verdict for line in lines} <= {"worse", "equivalent"}
    return [_("Keep {label}.", label=label) for label in baselines] if settled and len(baselines) == 1 else []


def in_short(lines: Sequence[Line], data_sets: int = 1) -> str:
    """`Undecided.`, or of several rows `No row is better.`"""
    verdicts = {line.verdict for line in lines}
    if not lines or verdicts <= UNTESTED.keys():
        return without_winner(lines)
    if len(lines) == 1:
        text = verdict_text(lines[0].verdict, lines[0].perhaps_negligible)
    else:
        worse = sum(line.verdict == "worse" for line in lines)
        text = _("none is better") if verdicts <= {"worse", "equivalent"} else _("none is shown to be better")
        if 0 < worse < len(lines):
            text = _("{text}, {count} worse", text=text, count=worse)
    if unlike := [line.label for line in lines if line.verdict in UNTESTED]:
        text = _("{text}; not comparable: {rows}", text=text, rows=listed(unlike, NAMED))
    text = _("{text}.", text=text)
    text = _("On average over {count} data sets, {rows}", count=data_sets, rows=text) if data_sets > 1 else text
    return text[0].upper() + text[1:]


def with_verdicts(lines: Sequence[Line]) -> str:
    """`LoRA: −0.2 ± 1.0, undecided; R-Drop: …`: the worse ones first; many rows of one verdict share it."""
    rank = {verdict: number for number, verdict in enumerate(ORDER)}
    having = dict[str, list[Line]]()
    for line in sorted(lines, key=lambda line: rank.get(line.verdict, len(rank))):
        having.setdefault(verdict_text(line.verdict, line.perhaps_negligible), []).append(line)
    parts = list[str]()
    for verdict, alike in having.items():
        if len(alike) < NAMED and all(line.size for line in alike):
            parts += [
                _("{label}: {size}, {verdict}", label=line.label, size=line.size, verdict=verdict) for line in alike
            ]
        else:
            rows = listed([line.label for line in alike], NAMED)
            parts.append(_("{verdict}: {rows}", verdict=verdict, rows=rows))
    return _("; ").join(parts)


def training_time(scores: Sequence[RowScore], results: Results) -> str:
    """`for 1.9 × the training time`: of a row on all data sets, beside its baseline; empty unless all were measured
    alike."""
    pairs = [(score.row.cells, score.comparison.against.cells) for score in scores if score.comparison]
    costs = [(row_cost(ours, results), row_cost(theirs, results)) for ours, theirs in pairs]
    alike = [(ours, theirs) for ours, theirs in costs if ours and theirs and ours.conditions == theirs.conditions]
    usual = sum(theirs.seconds for _ours, theirs in alike)
    if len(alike) < len(scores) or not usual:
        return ""
    ratio = sum(ours.seconds for ours, _theirs in alike) / usual
    if abs(ratio - 1) <= SAME_COST:
        return _("for the same training time")
    return _("for {ratio} × the training time", ratio=f"{ratio:.2g}")


def above_rows(section: Section, value: str, best: str, results: Results) -> list[str]:
    """Name references, such as TF-IDF, that score above the row `best`, or above half of the rows."""
    scores = [score for score in section.scores if score.value == value and not score.row.variant]
    lines = []
    for name, reference in references_of(section.recorded, results).items():
        if value not in reference or not scores or scores[0].higher is None:
            continue
        sign = 1 if scores[0].higher else -1
        below = [score.row.label for score in scores if sign * score.mean < sign * reference[value]]
        if best in below or 2 * len(below) >= len(scores):
            every = len(below) == len(scores) > 1
            some = _("{count} of {all} rows", count=len(below), all=len(scores))
            rows = _("every row") if every else listed(below) if len(below) < NAMED else some
            level = score_text(value, reference[value], places=section.places(value).mean)
            lines.append(_("{reference} ({level}) scores above {rows}.", reference=name, level=level, rows=rows))
    return lines
