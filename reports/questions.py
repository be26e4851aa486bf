"""Questions that are asked in several settings: the mean difference of each row over data sets, and what it says."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from reports.compare import RowScore, Section
from reports.forest import ForestRow
from reports.markdown import difference_text, heading, most_of, unit
from reports.messages import _, listed, n_
from reports.rows import row_cost, side_by_side
from reports.statistics.across import FEWEST, Mean, Setting, means_over_data
from reports.statistics.decide import ALPHA, Verdict, verdict
from reports.study import Results
from reports.tables import SIGNS, WORDS, Entry, Table, is_negligible, verdict_entry, verdict_text


@dataclass(frozen=True)
class RowMean:
    """A row of a question in one score, over the data sets."""

    label: str
    against: str
    scores: dict[str, RowScore]  # setting → its score there
    mean: Mean
    without: Mean | None = None  # without the data set that changes the verdict most, if one does
    left_out: str = ""  # that data set, by its settings

    @property
    def first(self) -> RowScore:
        return next(iter(self.scores.values()))

    def verdict_of(self, mean: Mean, half_width: float) -> Verdict:
        return verdict(mean.difference, half_width, bool(self.first.higher), self.first.margin, 2)

    @property
    def verdict(self) -> Verdict:
        """On these data sets, on average."""
        return self.verdict_of(self.mean, self.mean.half_width)

    @property
    def general(self) -> Verdict | None:
        """For another data set like these; None with too few data sets."""
        return None if math.isnan(self.mean.general) else self.verdict_of(self.mean, self.mean.general)

    def count(self, word: Verdict) -> int:
        """Count the settings with a verdict."""
        return sum(score.verdict == word for score in self.scores.values())


@dataclass(frozen=True)
class Question:
    """The sections of a question, one for each setting."""

    title: str
    note: str
    sections: list[Section]
    data: dict[str, str]  # setting → what identifies its data set
    means: dict[str, list[RowMean]]  # score → rows

    @property
    def data_sets(self) -> int:
        return len({*self.data.values()})


def questions_of(sections: Sequence[Section], results: Results) -> list[Question]:
    """Return the questions that are asked in more than one setting."""
    by_title: dict[str, list[Section]] = {}
    for section in sections:
        if section.recorded.setting:
            by_title.setdefault(section.recorded.question, []).append(section)
    return [question(title, sections, results) for title, sections in by_title.items() if len(sections) > 1]


def question(title: str, sections: list[Section], results: Results) -> Question:
    """Compare the rows of a question over its settings; all its means and scores share one significance level."""
    by_source = dict[str, str]()
    data = {section.recorded.setting: data_set(section, results, by_source) for section in sections}
    values = list(dict.fromkeys(value for section in sections for value in section.tested))
    by_value = {value: rows for value in values if (rows := complete_rows(sections, value))}
    level = ALPHA / max(1, len(by_value))
    means = {value: row_means(sections, value, rows, data, level) for value, rows in by_value.items()}
    return Question(title, sections[0].recorded.note, sections, data, means)


def data_set(section: Section, results: Results, by_source: dict[str, str]) -> str:
    """Return what identifies the data of a section: the digest of their content, or their name. Sections whose data
    have one source, perhaps with other columns, share it (`by_source`)."""
    row = section.rows[0]
    known = next((p.data_digest for cell in row.cells if (p := results.provenance(cell)) and p.data_digest), None)
    named = known or row.data or section.recorded.setting
    return by_source.setdefault((row.recorded.settings or {}).get("data.source", named), named)


def complete_rows(sections: list[Section], value: str) -> list[str]:
    """Return the names of the rows that were compared with the same row in all settings."""
    tested = [
        {
            (score.row.label, comparison.against.label)
            for score, comparison in section.comparisons
            if score.value == value and not score.row.variant and math.isfinite(comparison.half_width)
        }
        for section in sections
    ]
    everywhere = {label for label, _against in set.intersection(*tested)}
    return [row.label for row in sections[0].rows if row.label in everywhere]


def row_means(
    sections: list[Section], value: str, labels: list[str], data: dict[str, str], level: float
) -> list[RowMean]:
    settings = [setting_of(section, value, labels, data[section.recorded.setting]) for section in sections]
    names, most_seeds = list(dict.fromkeys(data.values())), sections[0].most_seeds
    rows = []
    for label, mean in zip(labels, means_over_data(settings, level, most_seeds), strict=True):
        scores = {section.recorded.setting: score_of(section, label, value) for section in sections}
        pair = next(iter(scores.values())).comparison
        rows.append(RowMean(label, pair.against.label if pair else "", scores, mean))
    if len(names) < 3:
        return rows
    without = {
        name: means_over_data([setting for setting in settings if setting.data != name], level, most_seeds)
        for name in names
    }
    return [
        with_what_is_left(row, {name: means[i] for name, means in without.items()}, data) for i, row in enumerate(rows)
    ]


def with_what_is_left(row: RowMean, without: dict[str, Mean], data: dict[str, str]) -> RowMean:
    """Add the mean without the data set that matters most to a row, if that changes its verdict."""
    changed = [name for name, mean in without.items() if row.verdict_of(mean, mean.half_width) != row.verdict]
    if not changed:
        return row
    name = max(changed, key=lambda name: abs(without[name].difference - row.mean.difference))
    left_out = ", ".join(setting for setting, held in data.items() if held == name)
    return replace(row, without=without[name], left_out=left_out)


def setting_of(section: Section, value: str, labels: list[str], data: str) -> Setting:
    """Return the measurements of the rows with these names and of their baselines in one setting."""
    rows = {row.label: row for row in section.rows if not row.variant}
    pairs = [(rows[label].number, rows[label].against or 0) for label in labels]
    numbers = list(dict.fromkeys(number for pair in pairs for number in pair))
    position = {number: i for i, number in enumerate(numbers)}
    measured = side_by_side([section.measured[number, value] for number in numbers])
    return Setting(data, measured, [(position[row], position[baseline]) for row, baseline in pairs])


def score_of(section: Section, label: str, value: str) -> RowScore:
    row = next(row for row in section.rows if row.label == label and not row.variant)
    return section.score_of[row.number, value]


def question_anchor(number: int) -> str:
    return f"over-data-sets-{number + 1}"


def mean_rows(question: Question, value: str, anchor: str, results: Results) -> list[ForestRow]:
    """Return the rows of a question on the first screen, the largest gain first."""
    scale = unit(value)
    rows = [
        ForestRow(
            row.label,
            anchor,
            question.title,
            row.verdict,
            row.against,
            row.first.higher is not False,
            scale * row.mean.difference,
            scale * row.mean.half_width,
            cost=row_cost([cell for score in row.scores.values() for cell in score.row.cells], results),
            perhaps_negligible=perhaps_negligible(row),
            parts=[part_row(setting, score, value) for setting, score in row.scores.items()],
        )
        for row in question.means.get(value, [])
    ]
    return sorted(rows, key=lambda row: -row.gain)


def baseline_rows(question: Question, value: str, anchor: str, results: Results) -> list[ForestRow]:
    """Return the rows that those of a question are compared with."""
    cells = dict[str, list[str]]()
    for row in question.means.get(value, []):
        pairs = [pair for score in row.scores.values() if (pair := score.comparison)]
        cells[row.against] = [cell for pair in pairs for cell in pair.against.cells]
    return [
        ForestRow(label, anchor, question.title, "baseline", "", True, 0.0, cost=row_cost(every, results))
        for label, every in cells.items()
    ]


def part_row(setting: str, score: RowScore, value: str) -> ForestRow:
    """Return the row of the first screen that shows a mean's row in one setting."""
    pair, scale = score.comparison, unit(value)
    difference, half_width = (pair.difference, pair.half_width) if pair else (math.nan, math.nan)
    higher = score.higher is not False
    row = ForestRow(setting, "", "", score.verdict, "", higher, scale * difference, scale * half_width)
    level, deviation = scale * score.mean, scale * score.deviation
    return replace(row, level=level, level_deviation=deviation, perhaps_negligible=is_negligible(score))


def perhaps_negligible(row: RowMean) -> bool:
    margin = row.first.margin
    clear = row.verdict in ("better", "worse")
    return clear and margin is not None and abs(row.mean.difference) - row.mean.half_width < margin


def mean_text(row: RowMean, mean: Mean, half_width: float, places: int | None = None) -> str:
    value = row.first.value
    return difference_text(unit(value) * mean.difference, unit(value) * half_width, most_of(value), places)


def means_table(question: Question, value: str) -> Table:
    """Return a line for each row: its mean over the data sets, and what that says of another data set."""
    rows, places = question.means[value], question.sections[0].places(value).difference
    title = _("{score}, mean differences", score=heading(value))
    on_these = n_("on this data set, on average", "on these {count} data sets, on average", question.data_sets)
    general = (
        [_("similar data sets, on average"), _("one similar data set")] if any(row.general for row in rows) else []
    )
    body = []
    for row in rows:
        words = [SIGNS.get(row.verdict, ""), verdict_text(row.verdict, perhaps_negligible(row))]
        text = " ".join([*filter(None, words), mean_text(row, row.mean, row.mean.half_width, places)])
        cells = [cell for score in row.scores.values() for cell in score.row.cells]
        line = [Entry(row.label), Entry(text, row.mean.difference, cells, style=row.verdict.replace(" ", "-"))]
        counts = {"better": row.count("better"), "worse": row.count("worse"), "all": len(row.scores)}
        line.append(Entry(_("better in {better}, worse in {worse} of {all}", **counts)))
        if general:
            word = _(WORDS[row.general or "not comparable"])
            line.append(Entry(f"{word} {mean_text(row, row.mean, row.mean.general, places)}"))
            line.append(Entry(mean_text(row, row.mean, row.mean.prediction, places)))
        body.append(line)
    return Table(title, [_("Configuration"), on_these, _("settings"), *general], body)


def settings_table(question: Question, value: str) -> Table:
    """Return a line for each row: its difference in each setting."""
    rows, places = question.means[value], question.sections[0].places(value).difference
    body = [
        [Entry(row.label)]
        + [verdict_entry(score, pair, places, False) for score in row.scores.values() if (pair := score.comparison)]
        for row in rows
    ]
    title = _("{score}, differences in each setting", score=heading(value))
    return Table(title, [_("Configuration"), *(part.recorded.setting for part in question.sections)], body)


def statements(question: Question, value: str) -> list[str]:
    """Return what the table of a question's means does not say."""
    lines = list[str]()
    means, places = question.means.get(value, []), question.sections[0].places(value).difference
    for row in means:
        if row.without:
            word = row.verdict_of(row.without, row.without.half_width)
            size = mean_text(row, row.without, row.without.half_width, places)
            words = {"name": row.left_out, "label": row.label, "verdict": _(WORDS[word]), "size": size}
            lines.append(_("Without {name}, {label} is {verdict} ({size}).", **words))
    labels = {row.label for row in means}
    scores = [score for section in question.sections for score, _pair in section.comparisons if score.value == value]
    if lacking := [name for name in dict.fromkeys(score.row.label for score in scores) if name not in labels]:
        lines.append(
            _("Without a mean, since not every setting tests it against the same row: {rows}.", rows=listed(lacking))
        )
    if means and question.data_sets < FEWEST:
        lines.append(_("Nothing is said of other data sets: that takes {fewest}.", fewest=FEWEST))
    return lines
