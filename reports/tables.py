"""The tables of a section, as data: a list with a row a configuration, a pivot of two axes, and the comparisons.

Markdown and the page have the same tables, each in its own markup (`to`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from contrastive.runs.recorded import RecordedSection
from reports.bilingual import Language, Words
from reports.compare import Comparisons
from reports.load import Results
from reports.markdown import MARKDOWN, MISSING, Markup, heading, markdown, number, probability, signed, symbol
from reports.rows import ShownRow, rows_of, shown_values, transfer_values

Lines = dict[Any, dict[Any, Any]]  # (row, value) → what was compared
VERDICTS = {
    "better": Words("better", "更好"),
    "worse": Words("worse", "更差"),
    "equivalent": Words("equivalent", "等效"),
    "undecided": Words("undecided", "未定"),
    "one seed": Words("one seed", "单个种子"),
    "no spread": Words("no spread", "没有波动"),
    "not comparable": Words("not comparable", "不可比"),
}


@dataclass(frozen=True)
class Entry:
    """One field of a table: what stands there, and what it is made of."""

    text: Words
    value: float | None = None
    cells: list[str] = field(default_factory=list)
    bold: bool = False


@dataclass(frozen=True)
class Table:
    caption: Words | None
    head: list[Words]
    rows: list[list[Entry]]
    folded: bool = False  # long, and detail: behind its caption

    def markdown(self, language: Language) -> str:
        lines = [[words.in_language(language) for words in self.head]]
        return markdown(lines + [[entry.text.in_language(language) for entry in row] for row in self.rows])


def same(text: str) -> Words:
    return Words(text, text)


def label(name: str, baseline: bool, to: Markup = MARKDOWN) -> Entry:
    """`baseline`: whether it is one, beside others that are compared with it."""
    text = to.text(name)
    return Entry(Words(f"{text} (baseline)", f"{text}（基线）") if baseline else same(text))


def section_tables(
    section: RecordedSection, results: Results, comparisons: Comparisons, to: Markup = MARKDOWN
) -> list[Table]:
    """One list, or one pivot for each value that the section shows; and one of transfer data, where asked."""
    values = section.show.table.values
    lines = {(line["row"], line["value"]): line for line in comparisons.frame.to_dict("records")}
    rows = rows_of(section, shown_values(section, results), results)
    if section.show.table.columns is None:
        tables = [list_table(section, rows, values, results, lines, to)]
    else:
        tables = [pivot_table(section, rows, value, results, lines, to) for value in values]
    if section.show.transfer:
        tables.append(list_table(section, rows, transfer_values(results), results, lines, to))
    return tables


def list_table(
    section: RecordedSection, rows: list[ShownRow], values: Sequence[str], results: Results, lines: Lines, to: Markup
) -> Table:
    body = [
        [
            label(row.label, row.baseline and len(rows) > 1, to),
            *(entry(lines[row.number, value], to) for value in values),
        ]
        for row in rows
    ]
    for name, scores in section_references(section, results).items():
        if any(value in scores for value in values):
            body.append(
                [
                    Entry(same(f"{to.italic}{to.text(name)}{to.italic}")),
                    *(reference_entry(scores.get(value)) for value in values),
                ]
            )
    return Table(None, [Words("Configuration", "配置"), *(same(heading(value, to)) for value in values)], body)


def pivot_table(
    section: RecordedSection, rows: list[ShownRow], value: str, results: Results, lines: Lines, to: Markup
) -> Table:
    table = section.show.table
    across = str(table.columns)
    down = table.rows or next(name for name in row_axes(section) if name != across)
    inside = [row for row in rows if across in row.axes and down in row.axes]
    outside = [row for row in rows if row not in inside]
    columns, names = unique(row.axes[across] for row in inside), unique(row.axes[down] for row in inside)
    body = []
    for name in names:
        line = [Entry(same(to.text(name)))]
        for column in columns:
            here = [r for r in inside if r.axes[down] == name and r.axes[across] == column]
            rest = [further(r, (down, across), to) if len(here) > 1 else "" for r in here]
            line.append(
                joined([(text, entry(lines[r.number, value], to)) for text, r in zip(rest, here, strict=True)], to)
            )
        body.append(line)
    body += [
        [label(row.label, row.baseline, to), *[entry(lines[row.number, value], to)] * len(columns)] for row in outside
    ]
    body += [
        [reference_label(name, to), *[reference_entry(scores[value])] * len(columns)]
        for name, scores in section_references(section, results).items()
        if value in scores
    ]
    corner = same(f"{to.text(symbol(down))} \\ {to.text(symbol(across))}")
    return Table(same(heading(value, to)), [corner, *(same(to.text(column)) for column in columns)], body)


def joined(parts: list[tuple[str, Entry]], to: Markup) -> Entry:
    """What stands in one field of a pivot: usually one configuration."""
    if len(parts) == 1 and not parts[0][0]:
        return parts[0][1]
    if not parts:
        return Entry(same(MISSING))
    return Entry(
        same(to.line_break.join(text + content.text.en for text, content in parts)),
        None,
        [cell for _, content in parts for cell in content.cells],
    )


def further(row: ShownRow, shown_elsewhere: tuple[str, ...], to: Markup) -> str:
    """The axes of a row that a pivot shows neither down nor across."""
    rest = {name: value for name, value in row.axes.items() if name not in shown_elsewhere}
    return ", ".join(f"{to.text(symbol(name))}={to.text(value)}" for name, value in rest.items()) + ": "


def section_references(section: RecordedSection, results: Results) -> dict[str, dict[str, float]]:
    """What the section's data is measured against, named with its data where there are several: name → scores."""
    here = {row.data for row in section.rows}
    return {
        f"{reference.name}, {reference.data}" if reference.data else reference.name: reference.scores
        for reference in results.grid.references
        if reference.data in here
    }


def entry(line: dict[Any, Any], to: Markup = MARKDOWN) -> Entry:
    """Mean ± half-width, bold where it is tied with the best."""
    if not math.isfinite(line["mean"]):
        return Entry(same(MISSING))
    text = number(line["mean"])
    text = f"{to.bold}{text}{to.bold}" if line["bold"] else text
    text = text if not math.isfinite(line["half_width"]) else f"{text} ± {number(line['half_width'])}"
    return Entry(same(text), line["mean"], line["cells"], line["bold"])


def reference_label(name: str, to: Markup) -> Entry:
    return Entry(same(f"{to.italic}{to.text(name)}{to.italic}"))


def reference_entry(score: float | None) -> Entry:
    return Entry(same(MISSING if score is None else number(score)), score)


LONGEST = 12  # comparisons that stand open


def comparison_table(comparisons: Comparisons, to: Markup = MARKDOWN) -> Table | None:
    """Each configuration against its baseline; None where nothing was compared."""
    lines = comparisons.frame[comparisons.frame["against"].notna()].to_dict("records")
    if not lines:
        return None
    one_value = len({line["value"] for line in lines}) == 1
    head = [
        Words("Compared to its baseline", "与基线比较"),
        *([] if one_value else [Words("Score", "指标")]),
        Words("verdict", "结论"),
        Words("difference ± interval of all together", "差异 ± 联合区间"),
        Words("margin", "容差"),
        Words("p", "p"),
        Words("probability of improvement", "改进概率"),
        Words("texts only it has right : only the baseline", "仅它答对 : 仅基线答对"),
    ]
    body = [
        [
            Entry(same(to.text(line["label"]))),
            *([] if one_value else [Entry(same(heading(line["value"], to)))]),
            verdict_entry(line),
            difference_entry(line),
            Entry(same(f"{line['margin']:g}" if math.isfinite(line["margin"]) else MISSING)),
            p_value(line["p"]),
            improvement_entry(line),
            Entry(same(discordant(line))),
        ]
        for line in lines
    ]
    count = len(lines)
    caption = Words(f"{count} comparison{'s' if count > 1 else ''} to the baseline", f"与基线的 {count} 项比较")
    return Table(caption, head, body, folded=len(lines) > LONGEST)


def verdict_entry(line: dict[Any, Any]) -> Entry:
    said = VERDICTS[line["verdict"]]
    if line["verdict"] == "equivalent" and line["side"]:
        more = VERDICTS["better" if line["side"] > 0 else "worse"]
        return Entry(Words(f"{said.en}; {more.en}, by less than matters", f"{said.zh}；{more.zh}，但无关紧要"))
    return Entry(said)


def difference_entry(line: dict[Any, Any]) -> Entry:
    if not math.isfinite(line["difference"]):
        return Entry(same(MISSING))
    half = line["difference_half_width"]
    text = signed(line["difference"]) + (f" ± {number(half)}" if math.isfinite(half) else "")
    return Entry(same(text), line["difference"], line["cells"])


def p_value(p: float) -> Entry:
    return Entry(same(MISSING if not math.isfinite(p) else probability(p)), p if math.isfinite(p) else None)


def discordant(line: dict[Any, Any]) -> str:
    """Of each seed, the texts on which just one of the two is right."""
    if not isinstance(line["only_ours"], list):
        return MISSING
    pairs = zip(line["only_ours"], line["only_theirs"], strict=True)
    return ", ".join(f"{ours} : {theirs}" for ours, theirs in pairs)


def improvement_entry(line: dict[Any, Any]) -> Entry:
    if not math.isfinite(line["improvement"]):
        return Entry(same(MISSING))
    return Entry(same(f"{line['improvement']:.2f}"), line["improvement"])


def effects_table(frame: pd.DataFrame, value: str, to: Markup = MARKDOWN) -> Table:
    """What each axis of the section explains, and each two of them together."""
    head = [
        Words(f"Axis, of {heading(value, to)}", f"轴（{heading(value, to)}）"),
        Words("share of the variance", "方差占比"),
        Words("F", "F"),
        Words("p", "p"),
    ]
    body = [
        [
            Entry(same(" × ".join(to.text(symbol(factor)) for factor in str(line["effect"]).split(" × ")))),
            Entry(same(f"{100 * line['share']:.1f} %"), line["share"]),
            Entry(same(f"{line['F']:.2f}"), line["F"]),
            p_value(line["p"]),
        ]
        for line in frame.to_dict("records")
    ]
    return Table(Words("Main effects and interactions", "主效应与交互作用"), head, body)


def levels_table(frame: pd.DataFrame, value: str, to: Markup = MARKDOWN) -> Table:
    """The mean of each level of an axis, balanced over the others, and how well its distance to the mean is known."""
    name = heading(value, to)
    head = [
        Words("Level of an axis", "轴的水平"),
        Words(
            f"mean of {name} over the other axes ± 95 % interval of its distance from the mean of the levels",
            f"{name} 在其他轴上的均值 ± 其与各水平均值之差的 95 % 区间",
        ),
    ]
    body = []
    for line in frame.to_dict("records"):
        half = f" ± {number(line['half_width'])}" if math.isfinite(line["half_width"]) else ""
        text = f"{number(line['mean'])}{half}"
        body.append([Entry(same(f"{to.text(line['axis'])}={to.text(line['level'])}")), Entry(same(text), line["mean"])])
    caption = Words(f"Means of the levels, {heading(value, to)}", f"各水平的均值（{heading(value, to)}）")
    return Table(caption, head, body, folded=True)


def row_axes(section: RecordedSection) -> list[str]:
    return unique(name for row in section.rows for name in row.axes)


def unique(values: Any) -> list[Any]:
    return list(dict.fromkeys(values))
