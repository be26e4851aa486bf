"""The tables of a section, as data: a list with a row a configuration, a pivot of two axes, and the comparisons.

Markdown and the HTML page are made of the same `Table`.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from reports.bilingual import Words
from reports.compare import Comparisons
from reports.load import Results
from reports.markdown import MISSING, bare, heading, markdown, number, plain, probability, signed, symbol
from reports.rows import rows_of, shown_values, transfer_values

VERDICTS = {
    "better": Words("better", "更好"),
    "worse": Words("worse", "更差"),
    "not shown": Words("not shown", "未显示"),
    "impossible": Words("cannot be shown", "无法判断"),
    "not comparable": Words("not comparable", "不可比"),
}


@dataclass(frozen=True)
class Entry:
    """One field of a table: what stands there, and what it is made of."""

    text: Words
    value: float | None = None
    cells: list[str] = field(default_factory=list)
    bold: bool = False

    def markdown(self, language: Any) -> str:
        return self.text.in_language(language)

    def bare(self) -> dict[str, Any]:
        return {"text": unmarked(self.text), "value": self.value, "cells": self.cells, "bold": self.bold}


@dataclass(frozen=True)
class Table:
    caption: Words | None
    head: list[Words]
    rows: list[list[Entry]]
    folded: bool = False  # long, and detail: behind its caption

    def markdown(self, language: Any) -> str:
        lines = [[one.in_language(language) for one in self.head]]
        return markdown(lines + [[entry.markdown(language) for entry in row] for row in self.rows])

    def bare(self, title: str) -> dict[str, Any]:
        """The same without Markdown, as a page shows it; a table without a caption has the section's title."""
        return {
            "caption": unmarked(self.caption) if self.caption else same(title),
            "head": [unmarked(one) for one in self.head],
            "rows": [[entry.bare() for entry in row] for row in self.rows],
        }


def unmarked(words: Words) -> Words:
    return Words(bare(words.en), bare(words.zh))


def same(text: str) -> Words:
    return Words(text, text)


def label(row: dict[str, Any], several: bool) -> Entry:
    text = plain(row["label"])
    return Entry(Words(f"{text} (baseline)", f"{text}（基线）") if row["baseline"] and several else same(text))


def section_tables(section: dict[str, Any], results: Results, comparisons: Comparisons) -> list[Table]:
    """One list, or one pivot for each value that the section shows; and one of further data, where asked."""
    table = section["show"]["table"]
    known = {(line["row"], line["value"]): line for line in comparisons.frame.to_dict("records")}
    rows = rows_of(section, shown_values(section, results), results)
    if table["columns"] is None:
        found = [list_table(section, rows, table["values"], results, known)]
    else:
        found = [pivot_table(section, rows, value, results, known) for value in table["values"]]
    if section["show"].get("transfer"):
        found.append(list_table(section, rows, transfer_values(results), results, known))
    return found


def list_table(
    section: dict[str, Any], rows: list[dict[str, Any]], values: list[str], results: Results, known: dict[Any, Any]
) -> Table:
    body = [[label(row, len(rows) > 1), *(entry(known[i, value]) for value in values)] for i, row in enumerate(rows)]
    for name, scores in references(section, results).items():
        if any(value in scores for value in values):
            body.append([Entry(same(f"*{plain(name)}*")), *(reference(scores.get(value)) for value in values)])
    return Table(None, [Words("Configuration", "配置"), *(same(heading(value)) for value in values)], body)


def pivot_table(
    section: dict[str, Any], rows: list[dict[str, Any]], value: str, results: Results, known: dict[Any, Any]
) -> Table:
    table = section["show"]["table"]
    across, down = table["columns"], table["rows"] or next(n for n in axis_names(section) if n != table["columns"])
    places = {id(row): i for i, row in enumerate(rows)}
    inside = [row for row in rows if across in row["axes"] and down in row["axes"]]
    outside = [row for row in rows if row not in inside]
    columns, names = unique(row["axes"][across] for row in inside), unique(row["axes"][down] for row in inside)
    body = []
    for name in names:
        line = [Entry(same(plain(name)))]
        for column in columns:
            here = [r for r in inside if r["axes"][down] == name and r["axes"][across] == column]
            rest = [further(r, (down, across)) if len(here) > 1 else "" for r in here]
            line.append(
                joined([(text, entry(known[places[id(r)], value])) for text, r in zip(rest, here, strict=True)])
            )
        body.append(line)
    body += [[label(row, several=True), *[entry(known[places[id(row)], value])] * len(columns)] for row in outside]
    body += [
        [Entry(same(f"*{plain(name)}*")), *[reference(scores[value])] * len(columns)]
        for name, scores in references(section, results).items()
        if value in scores
    ]
    corner = same(f"{plain(symbol(down))} \\ {plain(symbol(across))}")
    return Table(same(heading(value)), [corner, *(same(plain(column)) for column in columns)], body)


def joined(parts: list[tuple[str, Entry]]) -> Entry:
    """What stands in one field of a pivot: usually one configuration."""
    if len(parts) == 1 and not parts[0][0]:
        return parts[0][1]
    if not parts:
        return Entry(same(MISSING))
    return Entry(
        same("<br>".join(text + one.text.en for text, one in parts)),
        None,
        [cell for _, one in parts for cell in one.cells],
    )


def further(row: dict[str, Any], shown_elsewhere: tuple[str, ...]) -> str:
    """The axes of a row that a pivot shows neither down nor across."""
    rest = {name: value for name, value in row["axes"].items() if name not in shown_elsewhere}
    return ", ".join(f"{plain(symbol(name))}={plain(value)}" for name, value in rest.items()) + ": "


def references(section: dict[str, Any], results: Results) -> dict[str, dict[str, float]]:
    """What the section's data is measured against, named with its data where there are several: name → scores."""
    here = {row["data"] for row in section["rows"]}
    return {
        f"{reference['name']}, {reference['data']}" if reference["data"] else reference["name"]: reference["scores"]
        for reference in results.grid["references"]
        if reference["data"] in here
    }


def entry(line: dict[Any, Any]) -> Entry:
    """Mean ± half-width, bold where it is tied with the best."""
    if not math.isfinite(line["mean"]):
        return Entry(same(MISSING))
    text = number(line["mean"])
    text = f"**{text}**" if line["bold"] else text
    text = text if not math.isfinite(line["half_width"]) else f"{text} ± {number(line['half_width'])}"
    return Entry(same(text), line["mean"], line["cells"], line["bold"])


def reference(score: float | None) -> Entry:
    return Entry(same(MISSING if score is None else number(score)), score)


LONGEST = 12  # comparisons that stand open


def comparison_table(comparisons: Comparisons) -> Table | None:
    """Each configuration against its baseline; None where nothing was compared."""
    lines = comparisons.frame[comparisons.frame["against"].notna()].to_dict("records")
    if not lines:
        return None
    one_value = len({line["value"] for line in lines}) == 1
    head = [
        Words("Compared to its baseline", "与基线比较"),
        *([] if one_value else [Words("Score", "指标")]),
        Words("verdict", "结论"),
        Words("difference", "差异"),
        Words("p (Holm)", "p（Holm）"),
        Words("probability of improvement", "改进概率"),
        Words("texts only it has right : only the baseline", "仅它答对 : 仅基线答对"),
    ]
    body = [
        [
            Entry(same(plain(line["label"]))),
            *([] if one_value else [Entry(same(heading(line["value"])))]),
            Entry(VERDICTS[line["verdict"]]),
            difference(line),
            p_value(line["p_holm"]),
            improvement(line),
            Entry(same(discordant(line))),
        ]
        for line in lines
    ]
    count = len(lines)
    caption = Words(f"{count} comparison{'s' if count > 1 else ''} to the baseline", f"与基线的 {count} 项比较")
    return Table(caption, head, body, folded=len(lines) > LONGEST)


def difference(line: dict[Any, Any]) -> Entry:
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


def improvement(line: dict[Any, Any]) -> Entry:
    if not math.isfinite(line["improvement"]):
        return Entry(same(MISSING))
    return Entry(same(f"{line['improvement']:.2f}"), line["improvement"])


def effects_table(frame: pd.DataFrame, value: str) -> Table:
    """What each axis of the section explains, and each two of them together."""
    head = [
        Words(f"Axis, of {heading(value)}", f"轴（{heading(value)}）"),
        Words("share of the variance", "方差占比"),
        Words("F", "F"),
        Words("p (Holm)", "p（Holm）"),
    ]
    body = [
        [
            Entry(same(" × ".join(plain(symbol(one)) for one in str(line["effect"]).split(" × ")))),
            Entry(same(f"{100 * line['share']:.1f} %"), line["share"]),
            Entry(same(f"{line['F']:.2f}"), line["F"]),
            p_value(line["p_holm"]),
        ]
        for line in frame.to_dict("records")
    ]
    return Table(Words("Main effects and interactions", "主效应与交互作用"), head, body)


def levels_table(frame: pd.DataFrame, value: str) -> Table:
    """The mean of each level of an axis, balanced over the others, and how well its distance to the mean is known."""
    head = [
        Words("Level of an axis", "轴的水平"),
        Words(
            f"mean of {heading(value)} over the other axes ± 95 % interval of its distance from the mean of the levels",
            f"{heading(value)} 在其他轴上的均值 ± 其与各水平均值之差的 95 % 区间",
        ),
    ]
    body = []
    for line in frame.to_dict("records"):
        half = f" ± {number(line['half_width'])}" if math.isfinite(line["half_width"]) else ""
        text = f"{number(line['mean'])}{half}"
        body.append([Entry(same(f"{plain(line['axis'])}={plain(line['level'])}")), Entry(same(text), line["mean"])])
    caption = Words(f"Means of the levels, {heading(value)}", f"各水平的均值（{heading(value)}）")
    return Table(caption, head, body, folded=True)


def axis_names(section: dict[str, Any]) -> list[str]:
    return unique(name for row in section["rows"] for name in row["axes"])


def unique(values: Any) -> list[Any]:
    return list(dict.fromkeys(values))
