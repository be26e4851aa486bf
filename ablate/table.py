"""Read a table of scores: CSV, TSV, Parquet, JSON, JSON lines or Excel, with the place of each row for messages."""

import csv
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from contrastive import paths
from contrastive.errors import UserError, brief, brief_name

SUFFIXES = (".csv", ".tsv", ".parquet", ".jsonl", ".json", ".xlsx")
DELIMITERS = ",;\t"
UNNAMED = "index"  # the first column of a table that pandas wrote: numbers of lines, or names
DECIMAL_COMMA = re.compile(r"([-+]?\d+),(\d+)( ?%)?")
THOUSANDS = re.compile(r"[-+]?\d{1,3}(,\d{3})+\.\d+")
GERMAN = re.compile(r"[-+]?\d{1,3}(\.\d{3})+,\d+")  # 1.234,5
POINT = re.compile(r"[-+]?\d+\.\d+")
AMBIGUOUS = re.compile(r"[-+]?[1-9]\d{0,2},\d{3}")  # 1,234 in a file whose delimiter is a comma


class ScoreKind(NamedTuple):
    """Whether a score is better if higher, and the number of texts that it counts."""

    higher: bool
    texts: int | None


@dataclass(frozen=True)
class Table:
    """A table as it was read: one line per value of a row, a seed and perhaps a text."""

    name: str
    frame: pd.DataFrame
    places: list[str]  # of each line, such as "line 5"
    kinds: Mapping[str, ScoreKind] = field(default_factory=dict)  # of scores whose kind the table says
    settings: frozenset[str] = frozenset()  # columns that are known to be no scores
    failed: pd.DataFrame | None = None  # lines of runs that failed, indexed by their places


def read_file(source: str) -> Table:
    """Read a file by its suffix; raise UserError that names the line of a mistake."""
    path = paths.expand_user(source)
    paths.check_file(path, "table")
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise UserError(f"{brief(path)}: a table is a file {', '.join(SUFFIXES)}; save it as one of these")
    if suffix in (".parquet", ".json", ".xlsx"):
        return of_frame(_whole_file(path, suffix), path.name)
    lines = list(_json_lines(path) if suffix == ".jsonl" else _delimited(path, suffix))
    if not lines:
        raise UserError(f"{brief(path)} has no rows; it needs one for each row and seed")
    frame = pd.DataFrame([values for _, values in lines]).map(scalar)
    return Table(path.name, frame, [f"line {number}" for number, _ in lines])


def of_frame(frame: pd.DataFrame, name: str) -> Table:
    """Return a data frame as a table."""
    if frame.empty:
        raise UserError(f"{name} has no rows; it needs one for each row and seed")
    titles = [" ".join(map(str, title)) if isinstance(title, tuple) else str(title) for title in [*frame.columns]]
    frame = frame.set_axis(titles, axis=1)
    if any(name is not None for name in frame.index.names):  # as after `groupby`
        frame = pd.concat([frame.index.to_frame().rename(columns=str), frame], axis=1)
    frame = frame.reset_index(drop=True).map(scalar)
    if not frame.columns.is_unique:
        raise UserError(f"{name} has the column {frame.columns[frame.columns.duplicated()][0]} twice; rename one")
    return Table(name, frame, [f"row {number}" for number in range(1, len(frame) + 1)])


def scalar(value: Any) -> Any:
    """Return a nested value, such as a dict of settings, as text."""
    return str(value) if hasattr(value, "__len__") and not isinstance(value, str) else value


def _whole_file(path: Path, suffix: str) -> pd.DataFrame:
    text = _text(path) if suffix == ".json" else ""
    try:
        if text:
            return _json(text)
        return pd.read_parquet(path) if suffix == ".parquet" else pd.read_excel(path)
    except ImportError:
        raise UserError(f"{brief(path)}: Excel files need openpyxl; save the sheet as CSV") from None
    except Exception as error:  # pyarrow and openpyxl raise many types
        raise UserError(f"{brief(path)} cannot be read: {brief(error)}; write it again, or as CSV") from None


def _json(text: str) -> pd.DataFrame:
    """Return a list of objects, or an object of columns, as a data frame."""
    content = json.loads(text)
    lines = isinstance(content, list) and all(isinstance(line, dict) for line in content)
    columns = isinstance(content, dict) and all(isinstance(values, list | dict) for values in content.values())
    if not lines and not (columns and len(content) > 1):
        raise ValueError('expected a list of objects such as {"model": "a", "seed": 0, "acc": 0.8}')
    return pd.DataFrame(content)


def _text(path: Path) -> str:
    content = path.read_bytes()
    wrong, start = "a NUL byte, which no table has", content.find(b"\0")
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UserError(f"{brief(path)} is UTF-16; save the file as UTF-8 (in Excel: CSV UTF-8)")
    try:
        if start < 0:
            return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        wrong, start = "not UTF-8", error.start
    line = content[:start].count(b"\n") + 1
    raise UserError(f"{brief(path)}, line {line}: {wrong}; save the file as UTF-8")


def _json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(_text(path).split("\n"), start=1):
        if line.strip():
            try:
                values = json.loads(line)
            except ValueError as error:
                raise UserError(f"{brief(path)}, line {number}: not JSON ({error}); write one object a line") from None
            if not isinstance(values, dict):
                raise UserError(f'{brief(path)}, line {number}: expected an object such as {{"model": "a", "seed": 0}}')
            yield number, values


def _delimited(path: Path, suffix: str) -> Iterator[tuple[int, dict[str, Any]]]:
    text = _text(path)
    first = text.lstrip("\r\n").split("\n", 1)[0]
    delimiter = "\t" if suffix == ".tsv" else max(DELIMITERS, key=first.count)
    reader = csv.reader(text.splitlines(), delimiter=delimiter, strict=True)
    names, signs = list[str](), dict[str, str]()
    try:
        for values in reader:
            if not any(value.strip() for value in values):
                continue
            if not names:
                names = [value.strip() for value in values]
                names[0] = names[0] or UNNAMED
                _check_header(path, reader.line_num, names)
            elif len(values) != len(names):
                raise UserError(
                    f"{brief(path)}, line {reader.line_num}: {len(values)} fields, but the header has {len(names)}; "
                    "put texts that contain a delimiter in double quotes"
                )
            else:
                for name, value in zip(names, values, strict=True):
                    if (sign := decimal_sign(value.strip())) and signs.setdefault(name, sign) != sign:
                        raise UserError(
                            f"{brief(path)}, line {reader.line_num}: {name} is `{value.strip()}`, but other lines have "
                            f"the decimal sign `{signs[name]}`; write all numbers in the same way"
                        )
                plain = [with_point(value.strip(), delimiter) for value in values]
                yield reader.line_num, dict(zip(names, plain, strict=True))
    except csv.Error as error:
        raise UserError(f"{brief(path)}, line {reader.line_num}: {error}; check the quotes") from None


def with_point(value: str, delimiter: str) -> str:
    """Return a number with a decimal comma, or with commas between thousands, as one with a point; else the value."""
    if delimiter == "," and AMBIGUOUS.fullmatch(value):
        return value
    if match := DECIMAL_COMMA.fullmatch(value):
        return f"{match[1]}.{match[2]}{match[3] or ''}"
    if GERMAN.fullmatch(value):
        return value.replace(".", "").replace(",", ".")
    return value.replace(",", "") if THOUSANDS.fullmatch(value) else value


def decimal_sign(value: str) -> str | None:
    return "." if POINT.fullmatch(value) else "," if DECIMAL_COMMA.fullmatch(value) or GERMAN.fullmatch(value) else None


def _check_header(path: Path, line: int, names: list[str]) -> None:
    for name in names:
        if not name or names.count(name) > 1:
            wrong = f"the column {brief_name(name)} is there twice" if name else "a column has no name"
            raise UserError(f"{brief(path)}, line {line}: {wrong}; the first line names each column once")
