"""Read a table of scores: CSV, TSV, Parquet, JSON, JSON lines or Excel, with the place of each row for messages."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from contrastive import paths
from contrastive.data.files import decoded, json_lines, records
from contrastive.errors import UserError, brief, brief_name
from reports.study import Kind

SUFFIXES = (".csv", ".tsv", ".parquet", ".jsonl", ".json", ".xlsx")
DELIMITERS = ",;\t"
UNNAMED = "index"  # the first column of a table that pandas wrote: numbers of lines, or names
DECIMAL = re.compile(r"[-+]?(?:\d+|\d{1,3}(?:,\d{3})+(?=\.)|\d{1,3}(?:\.\d{3})+(?=,))([.,])\d+(?: ?%)?")  # 1.234,5 %
NUMBER_OR_NONE = re.compile(r"[-+]?\d[\d.,]*(?:e[-+]?\d+)?(?: ?%)?|-|–|n/?a|nan|none|null|", re.IGNORECASE)
AMBIGUOUS = re.compile(r"[-+]?[1-9]\d{0,2},\d{3}")  # 1,234 in a file whose delimiter is a comma


@dataclass(frozen=True)
class Table:
    """A table as it was read: one line per value of a row, a seed and perhaps a text."""

    name: str
    frame: pd.DataFrame
    places: list[str]  # of each line, such as "line 5"
    kinds: Mapping[str, Kind] = field(default_factory=dict)  # of scores whose kind the table says
    settings: frozenset[str] = frozenset()  # columns that are known to be no scores
    failed: pd.DataFrame | None = None  # lines of runs that failed, indexed by their places

    def keep(self, kept: pd.Series) -> "Table":
        places = [place for place, keep in zip(self.places, kept, strict=True) if keep]
        return replace(self, frame=self.frame[kept.tolist()].reset_index(drop=True), places=places)


@dataclass(frozen=True)
class Columns:
    """The columns of a table by what they hold: what a user names, or what the rules know so far."""

    row: tuple[str, ...]
    scores: tuple[str, ...]
    seed: str | None = None
    text: str | None = None
    data: str | None = None
    section: str | None = None  # of our own export, if it has several
    deviations: tuple[str, ...] = ()  # with `count`: a table of means
    count: str | None = None
    unused: tuple[str, ...] = ()  # columns of numbers that were taken for no scores
    unpaired: Literal["", "numbered", "sorted"] = ""  # why equal values of `seed` are not paired
    notes: tuple[str, ...] = ()  # what users should know about how the table was read

    @property
    def pairing(self) -> Literal["seeds", "none", "means"]:
        return "means" if self.deviations else "seeds" if self.seed and not self.unpaired else "none"

    @property
    def keys(self) -> list[str]:
        """The columns that tell lines apart, but for the row."""
        return [name for name in (self.seed, self.text, self.data, self.section) if name]

    @property
    def groups(self) -> list[str]:
        """The columns that name a row, its data set and its section."""
        return [*self.row, *filter(None, (self.data, self.section))]


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
    return Table(path.name, frame, [place for place, _ in lines])


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
    text = decoded(path) if suffix == ".json" else ""
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


def _mistake(path: Path, place: str, what: str) -> UserError:
    return UserError(f"{brief(path)}, {place}: {what}")


def _json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in json_lines(path):
        try:
            values = json.loads(line)
        except ValueError as error:
            raise _mistake(path, f"line {number}", f"not JSON ({error}); write one object a line") from None
        if not isinstance(values, dict):
            raise _mistake(path, f"line {number}", 'expected an object such as {"model": "a", "seed": 0}')
        yield f"line {number}", values


def _delimited(path: Path, suffix: str) -> Iterator[tuple[str, dict[str, Any]]]:
    text = decoded(path)
    first = text.lstrip("\r\n").split("\n", 1)[0]
    delimiter = "\t" if suffix == ".tsv" else max(DELIMITERS, key=first.count)
    if first.lstrip().startswith("|"):  # Markdown
        text, delimiter = re.sub(r"^[-:| \t]+(?=\r?$)|^[ \t]*\||\|[ \t]*(?=\r?$)", "", text, flags=re.MULTILINE), "|"
    names, signs, rows = list[str](), dict[str, str](), list[tuple[str, list[str]]]()
    for place, values in records(brief(path), text, delimiter):
        values = [value.strip() for value in values]
        if not any(values):
            continue
        if not names:
            names = _header(path, place, values)
            continue
        if len(values) != len(names):
            what = f"{len(values)} fields, but the header has {len(names)}"
            raise _mistake(path, place, f"{what}; put texts that contain a delimiter in double quotes")
        found = [decimal_sign(value, delimiter) for value in values]
        for name, value, sign in zip(names, values, found, strict=True):
            if sign and signs.setdefault(name, sign) != sign:
                what = f"{name} is `{value}`, but other lines have the decimal sign `{signs[name]}`"
                raise _mistake(path, place, f"{what}; write all numbers in the same way")
        rows.append((place, [*map(with_point, values, found)]))
    for number in range(len(names)) if delimiter == "," else ():
        _join_thousands(path, names[number], [(place, own, number) for place, own in rows], "." in signs.values())
    for place, values in rows:
        yield place, dict(zip(names, values, strict=True))


def _join_thousands(path: Path, name: str, cells: list[tuple[str, list[str], int]], english: bool) -> None:
    """Take the commas out of a column of numbers such as `12,054`, if others in the file have a decimal point."""
    found = [(line, values) for line, values, place in cells if AMBIGUOUS.fullmatch(values[place])]
    if not found or not all(NUMBER_OR_NONE.fullmatch(values[place]) for _, values, place in cells):
        return
    if not english:
        what = f"{name} is `{found[0][1][cells[0][2]]}`, which may have a thousand or a decimal comma"
        raise _mistake(path, found[0][0], f"{what}; write it without the comma, or with a point")
    for _, values in found:
        values[cells[0][2]] = values[cells[0][2]].replace(",", "")


def _header(path: Path, place: str, values: list[str]) -> list[str]:
    names = [values[0] or UNNAMED, *values[1:]]
    for name in names:
        if not name or names.count(name) > 1:
            wrong = f"the column {brief_name(name)} is there twice" if name else "a column has no name"
            raise _mistake(path, place, f"{wrong}; the first line names each column once")
    return names


def decimal_sign(value: str, delimiter: str) -> str | None:
    """Return the decimal sign of a number; None for other values, and for `1,234` if the delimiter is a comma."""
    match = None if delimiter == "," and AMBIGUOUS.fullmatch(value) else DECIMAL.fullmatch(value)
    return match[1] if match else None


def with_point(value: str, sign: str | None) -> str:
    """Return a number without signs between thousands and with a decimal point."""
    return value if sign is None else value.replace("." if sign == "," else ",", "").replace(",", ".")
