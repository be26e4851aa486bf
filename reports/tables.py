"""The tables of a section, as data: a list with a row a configuration, a pivot of two axes, and the comparisons.

Markdown and the page have the same tables, each in its own markup (`to`).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from contrastive.runs.recorded import RecordedSection
from reports.compare import Comparison, RowScore, Section
from reports.load import Results
from reports.markdown import MARKDOWN, MISSING, Markup, heading, markdown, number, probability, signed, symbol
from reports.messages import Said, _, n_
from reports.rows import Row, references_of, transfer_values
from reports.section_effects import Effect, Level

Item = TypeVar("Item")
VERDICTS = {
    "better": _("better"),
    "worse": _("worse"),
    "equivalent": _("equivalent"),
    "undecided": _("undecided"),
    "one seed": _("one seed"),
    "no spread": _("no spread"),
    "not comparable": _("not comparable"),
}


@dataclass(frozen=True)
class Entry:
    """One field of a table: what stands there, and what it is made of."""

    text: Said
    value: float | None = None
    cells: list[str] = field(default_factory=list)
    bold: bool = False


@dataclass(frozen=True)
class Table:
    caption: Said | None
    head: Sequence[Said]
    rows: list[list[Entry]]
    folded: bool = False  # long, and detail: behind its caption

    def markdown(self) -> str:
        """In the language in use."""
        lines = [[str(words) for words in self.head]]
        return markdown(lines + [[str(entry.text) for entry in row] for row in self.rows])


def label(name: str, baseline: bool, to: Markup = MARKDOWN) -> Entry:
    """`baseline`: whether it is one, beside others that are compared with it."""
    text = to.text(name)
    return Entry(_("{value} (baseline)", value=text) if baseline else (text))


def section_tables(section: Section, results: Results, to: Markup = MARKDOWN) -> list[Table]:
    """One list, or one pivot for each score that the section shows; and one of transfer data, where asked."""
    show = section.recorded.show
    if show.table.columns is None:
        tables = [list_table(section, show.table.values, results, to)]
    else:
        tables = [pivot_table(section, value, results, to) for value in show.table.values]
    if show.transfer:
        tables.append(list_table(section, transfer_values(results), results, to))
    return tables


def list_table(section: Section, values: Sequence[str], results: Results, to: Markup) -> Table:
    body = [
        [
            label(row.label, row.baseline and len(section.rows) > 1, to),
            *(entry(section.of[row.number, value], to) for value in values),
        ]
        for row in section.rows
    ]
    for name, scores in references_of(section.recorded, results).items():
        if any(value in scores for value in values):
            body.append(
                [
                    Entry(f"{to.italic}{to.text(name)}{to.italic}"),
                    *(reference_entry(scores.get(value)) for value in values),
                ]
            )
    return Table(None, [_("Configuration"), *((heading(value, to)) for value in values)], body)


def pivot_table(section: Section, value: str, results: Results, to: Markup) -> Table:
    table = section.recorded.show.table
    across = str(table.columns)
    down = table.rows or next(name for name in row_axes(section.recorded) if name != across)
    inside = [row for row in section.rows if across in row.axes and down in row.axes]
    outside = [row for row in section.rows if row not in inside]
    columns, names = unique(row.axes[across] for row in inside), unique(row.axes[down] for row in inside)
    body = []
    for name in names:
        line = [Entry(to.text(name))]
        for column in columns:
            here = [r for r in inside if r.axes[down] == name and r.axes[across] == column]
            rest = [further(r, (down, across), to) if len(here) > 1 else "" for r in here]
            line.append(
                in_one_field(
                    [(text, entry(section.of[r.number, value], to)) for text, r in zip(rest, here, strict=True)], to
                )
            )
        body.append(line)
    body += [
        [label(row.label, row.baseline, to), *[entry(section.of[row.number, value], to)] * len(columns)]
        for row in outside
    ]
    body += [
        [reference_label(name, to), *[reference_entry(scores[value])] * len(columns)]
        for name, scores in references_of(section.recorded, results).items()
        if value in scores
    ]
    corner = f"{to.text(symbol(down))} \\ {to.text(symbol(across))}"
    return Table((heading(value, to)), [corner, *((to.text(column)) for column in columns)], body)


def in_one_field(parts: list[tuple[str, Entry]], to: Markup) -> Entry:
    """What stands in one field of a pivot: usually one configuration."""
    if len(parts) == 1 and not parts[0][0]:
        return parts[0][1]
    if not parts:
        return Entry(MISSING)
    return Entry(
        (to.line_break.join(text + str(content.text) for text, content in parts)),
        None,
        [cell for _, content in parts for cell in content.cells],
    )


def further(row: Row, shown_elsewhere: tuple[str, ...], to: Markup) -> str:
    """The axes of a row that a pivot shows neither down nor across."""
    rest = {name: value for name, value in row.axes.items() if name not in shown_elsewhere}
    return ", ".join(f"{to.text(symbol(name))}={to.text(value)}" for name, value in rest.items()) + ": "


def entry(score: RowScore, to: Markup = MARKDOWN) -> Entry:
    """Mean ± half-width, bold where it is tied with the best."""
    if not math.isfinite(score.mean):
        return Entry(MISSING)
    text = number(score.mean)
    text = f"{to.bold}{text}{to.bold}" if score.bold else text
    text = text if not math.isfinite(score.half_width) else f"{text} ± {number(score.half_width)}"
    return Entry((text), score.mean, score.row.cells, score.bold)


def reference_label(name: str, to: Markup) -> Entry:
    return Entry(f"{to.italic}{to.text(name)}{to.italic}")


def reference_entry(score: float | None) -> Entry:
    return Entry((MISSING if score is None else number(score)), score)


LONGEST = 12  # comparisons that stand open


def comparison_table(section: Section, to: Markup = MARKDOWN) -> Table | None:
    """Each configuration against its baseline; None where nothing was compared."""
    compared = [(score, score.comparison) for score in section.scores if score.comparison]
    if not compared:
        return None
    one_value = len({score.value for score, _ in compared}) == 1
    head = [
        _("Compared to its baseline"),
        *([] if one_value else [_("Score")]),
        _("verdict"),
        _("difference ± interval of all together"),
        _("margin"),
        _("p"),
        _("probability of improvement"),
        _("texts only it has right : only the baseline"),
    ]
    body = [
        [
            Entry(to.text(score.row.label)),
            *([] if one_value else [Entry(heading(score.value, to))]),
            verdict_entry(comparison),
            difference_entry(score, comparison),
            Entry(MISSING if score.margin is None else f"{score.margin:g}"),
            p_value(comparison.p),
            improvement_entry(comparison),
            Entry(discordant(comparison)),
        ]
        for score, comparison in compared
    ]
    count = len(compared)
    caption = n_("{count} comparison to the baseline", "{count} comparisons to the baseline", count)
    return Table(caption, head, body, folded=count > LONGEST)


def verdict_entry(comparison: Comparison) -> Entry:
    said = VERDICTS[comparison.verdict]
    if comparison.verdict == "equivalent" and comparison.side:
        more = VERDICTS["better" if comparison.side > 0 else "worse"]
        return Entry(_("{said}; {more}, by less than matters", said=said, more=more))
    return Entry(said)


def difference_entry(score: RowScore, comparison: Comparison) -> Entry:
    if not math.isfinite(comparison.difference):
        return Entry(MISSING)
    half = comparison.half_width
    text = signed(comparison.difference) + (f" ± {number(half)}" if math.isfinite(half) else "")
    return Entry((text), comparison.difference, score.row.cells)


def p_value(p: float) -> Entry:
    return Entry((MISSING if not math.isfinite(p) else probability(p)), p if math.isfinite(p) else None)


def discordant(comparison: Comparison) -> str:
    """Of each seed, the texts on which just one of the two is right."""
    pairs = zip(comparison.only_ours, comparison.only_theirs, strict=True)
    return ", ".join(f"{ours} : {theirs}" for ours, theirs in pairs) or MISSING


def improvement_entry(comparison: Comparison) -> Entry:
    if not math.isfinite(comparison.improvement):
        return Entry(MISSING)
    return Entry((f"{comparison.improvement:.2f}"), comparison.improvement)


def effects_tables(effects: Sequence[Effect], to: Markup = MARKDOWN) -> list[Table]:
    """Of each score, what each axis of the section explains, and each two of them together."""
    tables = []
    for value in dict.fromkeys(effect.value for effect in effects):
        head = [
            _("Axis, of {value}", value=heading(value, to)),
            _("share of the variance"),
            _("F"),
            _("p"),
        ]
        body = [
            [
                Entry(" × ".join(to.text(symbol(factor)) for factor in effect.factors)),
                Entry((f"{100 * effect.share:.1f} %"), effect.share),
                Entry((f"{effect.f:.2f}"), effect.f),
                p_value(effect.p),
            ]
            for effect in effects
            if effect.value == value
        ]
        tables.append(Table(_("Main effects and interactions"), head, body))
    return tables


def levels_tables(levels: Sequence[Level], to: Markup = MARKDOWN) -> list[Table]:
    """Of each score, the mean of each level of an axis, balanced over the others, and how well its distance to the
    mean is known."""
    tables = []
    for value in dict.fromkeys(level.value for level in levels):
        name = heading(value, to)
        head = [
            _("Level of an axis"),
            _(
                "mean of {name} over the other axes ± 95 % interval of its distance from the mean of the levels",
                name=name,
            ),
        ]
        body = []
        for level in levels:
            if level.value == value:
                half = f" ± {number(level.half_width)}" if math.isfinite(level.half_width) else ""
                shown = Entry((f"{number(level.mean)}{half}"), level.mean)
                body.append([Entry(f"{to.text(level.axis)}={to.text(level.name)}"), shown])
        caption = _("Means of the levels, {name}", name=name)
        tables.append(Table(caption, head, body, folded=True))
    return tables


def row_axes(section: RecordedSection) -> list[str]:
    return unique(name for row in section.rows for name in row.axes)


def unique(values: Iterable[Item]) -> list[Item]:
    return list(dict.fromkeys(values))
