"""The tables of a report: each of a known head, its rows those of the frames, none missing and none added."""

import math
import re
from collections.abc import Iterator
from typing import Any

import pandas as pd

from reports.bilingual import Language
from reports.claims.numbers import Numbers
from reports.claims.prose import COMPARING
from reports.compare import Comparisons
from reports.markdown import MISSING, heading, number
from reports.tables import comparison_table, effects_table, entry, label, levels_table

NUMBER = re.compile(r"(\*\*)?(-?\d+\.\d{4})(\*\*)?(?: ± (\d+\.\d{4}))?")
REFERENCE = re.compile(rf"-?\d+\.\d{{4}}|{MISSING}")
MEAN = r"-?\d+\.\d{4}(?: ± \d+\.\d{4})?"
OVER = r"-?\d+\.\d{4} \(-?\d+\.\d{4}–-?\d+\.\d{4}\)"
LISTED = ("Configuration", "配置")
ACROSS = ("Over all data sets", "跨全部数据集")
COUNTS = re.compile(r"(?:Split|Rows)( of .+)?|(?:划分|行数)(（.+）)?")
Rows = list[list[str]]


def tables(title: str | None, lines: list[str], numbers: Numbers, language: Language) -> Iterator[str]:
    """Those of a section; those of no section count the texts of the classes."""
    blocks = re.findall(r"(?:^\|.*\n?)+", "\n".join(lines), flags=re.MULTILINE)
    if title is None:
        yield from (problem for block in blocks for problem in class_counts(parsed(block)))
        return
    compared = numbers.of(title)
    true = made(title, compared, numbers, language)
    printed: set[tuple[str, str, bool]] = set()
    right = {printed_of(line) for line in compared.frame.to_dict("records") if math.isfinite(line["mean"])}
    for block in (block.rstrip("\n") for block in blocks):
        rows = parsed(block)
        if block in true:
            true.remove(block)
        elif len(rows) < 2 or not rows[0] or any(len(row) != len(rows[0]) for row in rows):
            yield f"{title}: no table is {block}"
        elif rows[0][0] in LISTED:
            yield from listed(title, rows, compared, language)
            printed |= {found for row in rows[2:] for found in scores_in(row) if not is_reference(row)}
        elif " \\ " in rows[0][0]:
            yield from pivot(title, rows, right)
            printed |= {found for row in rows[2:] for found in scores_in(row) if not is_reference(row)}
        else:
            yield from derived(title, rows, compared, numbers, language)
    yield from (f"{title}: this table is missing or not so: {block}" for block in true)
    yield from (f"{title}: {as_text(*one)} is not in the table" for one in right - printed)


def made(title: str, compared: Comparisons, numbers: Numbers, language: Language) -> list[str]:
    """The tables that the frames tell to the last sign."""
    comparison = comparison_table(compared)
    effects = [effects_table(frame, value) for value, frame in numbers.effects_of(title).items()]
    return [table.markdown(language) for table in [*([comparison] if comparison else []), *effects]]


def captions(compared: Comparisons, language: Language) -> list[str]:
    """What may stand above a table of a section, as patterns."""
    values = [heading(value) for value in compared.frame["value"].unique()]
    names = "|".join(map(re.escape, values))
    comparison = comparison_table(compared)
    own = [comparison.caption, effects_table(pd.DataFrame(), "").caption] if comparison else []
    told = [re.escape(one.in_language(language)) for one in own if one]
    if language == "en":
        return [*told, f"(?:{names})", rf"Means of the levels, (?:{names})", rf"(?:{names}) over \d+ data sets"]
    return [*told, f"(?:{names})", rf"各水平的均值（(?:{names})）", rf"\d+ 个数据集上的 (?:{names})"]


def parsed(block: str) -> Rows:
    return [[one.strip() for one in re.split(r"(?<!\\)\|", line)[1:-1]] for line in block.splitlines()]


def class_counts(rows: Rows) -> Iterator[str]:
    """How many texts each class has in each split, or what became of rows, with their sum."""
    said = "; ".join(" | ".join(row) for row in rows)
    head, body = rows[0], rows[2:]
    if not head or not COUNTS.fullmatch(head[0]) or head[-1] not in ("all", "合计"):
        yield f"no table is {said}"
        return
    for row in body:
        counts = [int(one) for one in row[1:] if one.isdecimal()]
        if len(row) != len(head) or len(counts) != len(row) - 1 or sum(counts[:-1]) != counts[-1]:
            yield f"these are no counts: {' | '.join(row)}"


def scores_in(row: list[str]) -> set[tuple[str, str, bool]]:
    return {(value, half, bool(bold)) for one in row[1:] for bold, value, _, half in NUMBER.findall(one)}


def as_text(value: str, half: str, bold: bool) -> str:
    return (f"**{value}**" if bold else value) + (f" ± {half}" if half else "")


def printed_of(line: dict[Any, Any]) -> tuple[str, str, bool]:
    """Mean, half-width and boldness of a line, as a table has them."""
    half = number(line["half_width"]) if math.isfinite(line["half_width"]) else ""
    return number(line["mean"]), half, bool(line["bold"])


def is_reference(row: list[str]) -> bool:
    return bool(re.fullmatch(r"\*(?!\*).*(?<!\\)\*", row[0]))


def references(title: str, rows: Rows) -> Iterator[str]:
    """What the data is measured against is not in the frames: a name that praises nothing, and bare numbers."""
    for row in rows:
        if not all(REFERENCE.fullmatch(one) for one in row[1:]) or COMPARING.search(row[0]):
            yield f"{title}: no reference is {' | '.join(row)}"


def listed(title: str, rows: Rows, compared: Comparisons, language: Language) -> Iterator[str]:
    """In a list, each configuration stands once, in order, with its own numbers."""
    frame = compared.frame
    values = {heading(value): value for value in frame["value"].unique()}
    head, body = rows[0], rows[2:]
    if unknown := [one for one in head[1:] if one not in values]:
        yield f"{title}: no score is {', '.join(unknown)}"
        return
    known = {(line["row"], line["value"]): line for line in frame.to_dict("records")}
    places = frame.drop_duplicates("row")
    baselines = set(frame.loc[frame["verdict"] == "baseline", "row"])
    true = [
        [
            label(name, place in baselines and len(places) > 1).text.in_language(language).strip(),
            *(entry(known[place, values[one]]).text.in_language(language) for one in head[1:]),
        ]
        for place, name in zip(places["row"], places["label"], strict=True)
    ]
    said, rest = body[: len(true)], body[len(true) :]
    for ours, theirs in zip(true, said, strict=False):
        if ours != theirs:
            yield f"{title}: the row is {' | '.join(ours)}, not {' | '.join(theirs)}"
    if len(said) < len(true):
        yield f"{title}: {len(true) - len(said)} rows are missing"
    yield from (f"{title}: no configuration is {row[0]}" for row in rest if not is_reference(row))
    yield from references(title, [row for row in rest if is_reference(row)])


def pivot(title: str, rows: Rows, right: set[tuple[str, str, bool]]) -> Iterator[str]:
    """Every number is one of the section, as bold as it is."""
    yield from references(title, [row for row in rows[2:] if is_reference(row)])
    for row in (row for row in rows[2:] if not is_reference(row)):
        wrong = scores_in(row) - right
        yield from (f"{title}: {as_text(*one)} is no result: {' | '.join(row)}" for one in wrong)
        for one in row[1:]:
            bare = NUMBER.sub("", one)
            if "**" in bare or "*" in bare.replace("\\*", "") or (one != MISSING and not NUMBER.search(one)):
                yield f"{title}: no result is {one}"


def derived(title: str, rows: Rows, compared: Comparisons, numbers: Numbers, language: Language) -> Iterator[str]:
    """Means of the levels of an axis, and over data sets: of the form that they have."""
    head, body = rows[0], rows[2:]
    levels = [levels_table(pd.DataFrame(), value).head for value in numbers.effects_of(title)]
    if head in [[one.in_language(language) for one in known] for known in levels]:
        form = MEAN
    elif head[0] in ACROSS and len(head) == 2 and any(heading(value) in head[1] for value in compared.frame["value"]):
        form = OVER
    else:
        yield f"{title}: no table has the head {' | '.join(head)}"
        return
    for row in body:
        if not re.fullmatch(form, row[1]) or "**" in row[0]:
            yield f"{title}: this is no mean: {' | '.join(row)}"
