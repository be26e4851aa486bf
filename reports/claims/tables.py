"""The tables of a report: each of a known head, its rows those of the frames, none missing and none added."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from reports.bilingual import Language
from reports.claims.contradiction import Contradiction, exactly
from reports.claims.numbers import SectionNumbers
from reports.claims.prose import COMPARING
from reports.markdown import MISSING, heading, number
from reports.tables import entry, label, levels_table

NUMBER = re.compile(r"(\*\*)?(-?\d+\.\d{4})(\*\*)?(?: ± (\d+\.\d{4}))?")
REFERENCE = re.compile(rf"-?\d+\.\d{{4}}|{MISSING}")
MEAN = r"-?\d+\.\d{4}(?: ± \d+\.\d{4})?"
OVER = r"-?\d+\.\d{4}(?: \(-?\d+\.\d{4}–-?\d+\.\d{4}\))?"  # nothing of one seed
LISTED = ("Configuration", "配置")
ACROSS = ("Over all data sets", "跨全部数据集")
COUNTS = re.compile(r"(?:Split|Rows)( of .+)?|(?:划分|行数)(（.+）)?")
Printed = tuple[str, str, bool]  # mean, half-width, and whether it is bold


@dataclass(frozen=True)
class TableLine:
    """A line of a table, and its fields."""

    line: str
    fields: list[str]

    @property
    def is_reference(self) -> bool:
        return bool(re.fullmatch(r"\*(?!\*).*(?<!\\)\*", self.fields[0]))


def table_blocks(lines: list[str]) -> list[list[TableLine]]:
    """The tables among some lines."""
    blocks = re.findall(r"(?:^\|.*\n?)+", "\n".join(lines), flags=re.MULTILINE)
    return [
        [TableLine(line, [text.strip() for text in re.split(r"(?<!\\)\|", line)[1:-1]]) for line in block.splitlines()]
        for block in blocks
    ]


def check_tables(section: SectionNumbers, title: str, lines: list[str], language: Language) -> Iterator[Contradiction]:
    """Those of a section, which stand below its title. Scores are missing only where no line is wrong."""
    missing = [table.markdown(language).splitlines() for table in section.tables]
    right = {printed_of(line) for line in section.lines if math.isfinite(line["mean"])}
    printed, problems = set[Printed](), list[Contradiction]()
    for rows in table_blocks(lines):
        if true := next((table for table in missing if table[0] == rows[0].line), None):
            missing.remove(true)
            problems += same_table(true, [row.line for row in rows])
        else:
            problems += scores_table(rows, section, right, language)
            printed |= printed_in(rows)
    problems += [Contradiction(f"the table `{table[0]}` is missing below `{title}`", title) for table in missing]
    yield from problems
    if not problems:
        yield from (Contradiction(f"{as_text(*score)} is missing in the tables", title) for score in right - printed)


def scores_table(
    rows: list[TableLine], section: SectionNumbers, right: set[Printed], language: Language
) -> Iterator[Contradiction]:
    """A list of configurations, a pivot, or means: by its head."""
    head, width = rows[0], len(rows[0].fields)
    if len(rows) < 2 or not width or any(len(row.fields) != width for row in rows):
        yield Contradiction(f"this is no table: {head.line}", head.line)
    elif head.fields[0] in LISTED:
        yield from check_list(rows, section, language)
    elif " \\ " in head.fields[0]:
        yield from pivot(rows, right)
    else:
        yield from derived(rows, section, language)


def same_table(true: list[str], said: list[str]) -> Iterator[Contradiction]:
    """One that the frames tell to the last sign: the same rows in the same order."""
    if true != said:
        yield from list(exactly(true, said, said[0])) or [Contradiction("the rows have another order", said[0])]


def captions(section: SectionNumbers, language: Language) -> list[str]:
    """What may stand above a table of a section, as patterns."""
    values = [heading(value) for value in section.compared.frame["value"].unique()]
    names = "|".join(map(re.escape, values))
    own = [re.escape(table.caption.in_language(language)) for table in section.tables if table.caption]
    if language == "en":
        return [*own, f"(?:{names})", rf"Means of the levels, (?:{names})", rf"(?:{names}) over \d+ data sets"]
    return [*own, f"(?:{names})", rf"各水平的均值（(?:{names})）", rf"\d+ 个数据集上的 (?:{names})"]


def check_class_counts(rows: list[TableLine]) -> Iterator[Contradiction]:
    """How many texts each class has in each split, or what became of rows, with their sum."""
    head, width = rows[0], len(rows[0].fields)
    if not width or not COUNTS.fullmatch(head.fields[0]) or head.fields[-1] not in ("all", "合计"):
        yield Contradiction(f"no table has the head {head.line}", head.line)
        return
    for row in rows[2:]:
        counts = [int(text) for text in row.fields[1:] if text.isdecimal()]
        if len(row.fields) != width or len(counts) != width - 1 or sum(counts[:-1]) != counts[-1]:
            yield Contradiction(f"these counts do not add up: {row.line}", row.line)


def scores_in(row: TableLine) -> set[Printed]:
    return {(value, half, bool(bold)) for text in row.fields[1:] for bold, value, _, half in NUMBER.findall(text)}


def printed_in(rows: list[TableLine]) -> set[Printed]:
    """The scores that a list or a pivot shows; means of them, in another table, are none."""
    corner = "".join(rows[0].fields[:1])
    if corner not in LISTED and " \\ " not in corner:
        return set()
    return {score for row in rows[2:] if row.fields and not row.is_reference for score in scores_in(row)}


def as_text(value: str, half: str, bold: bool) -> str:
    return (f"**{value}**" if bold else value) + (f" ± {half}" if half else "")


def printed_of(line: dict[Any, Any]) -> Printed:
    """Mean, half-width and boldness of a line, as a table has them."""
    half = number(line["half_width"]) if math.isfinite(line["half_width"]) else ""
    return number(line["mean"]), half, bool(line["bold"])


def check_references(rows: list[TableLine]) -> Iterator[Contradiction]:
    """What the data is measured against is not in the frames: a name that praises nothing, and bare numbers."""
    for row in rows:
        if not all(REFERENCE.fullmatch(text) for text in row.fields[1:]) or COMPARING.search(row.fields[0]):
            yield Contradiction(f"no reference is {row.line}", row.line)


def check_list(rows: list[TableLine], section: SectionNumbers, language: Language) -> Iterator[Contradiction]:
    """In a list, each configuration stands once, in order, with its own numbers."""
    values = {heading(value): value for value in section.compared.frame["value"].unique()}
    head, body = rows[0], rows[2:]
    if unknown := [name for name in head.fields[1:] if name not in values]:
        yield Contradiction(f"no score is {', '.join(unknown)}", head.line)
        return
    true = true_rows(section, [values[name] for name in head.fields[1:]], language)
    said, rest = body[: len(true)], body[len(true) :]
    for ours, theirs in zip(true, said, strict=False):
        if ours != theirs.fields:
            yield Contradiction(f"the numbers say `| {' | '.join(ours)} |`, not `{theirs.line}`", theirs.line)
    if len(said) < len(true):
        yield Contradiction(f"{len(true) - len(said)} rows are missing", head.line)
    yield from (Contradiction(f"no configuration is {row.line}", row.line) for row in rest if not row.is_reference)
    yield from check_references([row for row in rest if row.is_reference])


def true_rows(section: SectionNumbers, values: list[str], language: Language) -> list[list[str]]:
    """The fields of each configuration in a list of these scores."""
    frame, lines = section.compared.frame, {(line["row"], line["value"]): line for line in section.lines}
    configurations = frame.drop_duplicates("row")
    baselines = set(frame.loc[frame["verdict"] == "baseline", "row"])
    return [
        [
            label(name, row in baselines and len(configurations) > 1).text.in_language(language).strip(),
            *(entry(lines[row, value]).text.in_language(language) for value in values),
        ]
        for row, name in zip(configurations["row"], configurations["label"], strict=True)
    ]


def pivot(rows: list[TableLine], right: set[Printed]) -> Iterator[Contradiction]:
    """Every number is one of the section, as bold as it is."""
    yield from check_references([row for row in rows[2:] if row.is_reference])
    for row in (row for row in rows[2:] if not row.is_reference):
        for score in scores_in(row) - right:
            yield Contradiction(f"{as_text(*score)} is no result: {row.line}", row.line)
        for text in row.fields[1:]:
            rest = NUMBER.sub("", text)
            if "**" in rest or "*" in rest.replace("\\*", "") or (text != MISSING and not NUMBER.search(text)):
                yield Contradiction(f"no result is {text}", row.line)


def derived(rows: list[TableLine], section: SectionNumbers, language: Language) -> Iterator[Contradiction]:
    """Means of the levels of an axis, and over data sets: of the form that they have."""
    head, values = rows[0], section.compared.frame["value"]
    levels = [levels_table(pd.DataFrame(), value).head for value in section.effects]
    if head.fields in [[field.in_language(language) for field in fields] for fields in levels]:
        form = MEAN
    elif (
        head.fields[0] in ACROSS
        and len(head.fields) == 2
        and any(heading(value) in head.fields[1] for value in values.unique())
    ):
        form = OVER
    else:
        yield Contradiction(f"no table has the head {head.line}", head.line)
        return
    for row in rows[2:]:
        if not re.fullmatch(form, row.fields[1]) or "**" in row.fields[0]:
            yield Contradiction(f"this is no mean: {row.line}", row.line)
