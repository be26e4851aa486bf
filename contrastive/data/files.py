"""Labelled rows from a file: csv, tsv, jsonl or parquet. A mistake in a file is told with its file and row."""

import codecs
import csv
import difflib
import io
import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

from contrastive import paths
from contrastive.errors import UserError, brief

LONGEST_FIELD = 2**31 - 1  # the csv module gives up at 128 KiB by default
MOST_LISTED = 20  # columns that an error lists
# What a row that was taken for one column seems to have between its columns, and the ending of such files.
DELIMITERS = {";": "", "\t": ".tsv", ",": ".csv", "|": ""}

# Setting → the column that it names: `text`, then `label` or `score`, then the others, `positive`, `other`, `subset` …
Columns = Mapping[str, str]
Cells = Iterator[tuple[Any, ...]]  # row number from 1 (a header is none), and what stands in each of the columns


@dataclass(frozen=True)
class Rows:
    """Texts with the name of their label, or their score, as they stand in one source. `partners` are what else belongs
    to a text: its positive and negative, or the other text of its pair, and the subset. `spellings` are the ways in
    which the source writes each label."""

    name: str
    texts: list[str]
    labels: list[str]
    partners: list[tuple[str, ...]] = field(default_factory=list)
    spellings: dict[str, set[str]] = field(default_factory=dict)


def read_file(path: Path, columns: Columns) -> Rows:
    """Some columns of a file, every row checked."""
    reader, name = READERS.get(path.suffix.lower()), brief(path)
    if reader is None:
        raise UserError(f"{name}: cannot read `{brief(path.suffix)}` files; give one of {', '.join(READERS)}")
    paths.check_file(path)
    try:
        return checked(name, reader(path, columns), tuple(columns))
    except OSError as error:
        raise UserError(f"{name} cannot be read ({error.strerror or brief(error)}); mend that, or copy it") from None


def checked(name: str, cells: Iterable[tuple[Any, ...]], settings: tuple[str, ...] = ("text", "label")) -> Rows:
    """Rows in which nothing is missing; otherwise one error that names the rows."""
    rows = Rows(name, [], [])
    absent: dict[str, list[int]] = {what: [] for what in settings}
    for number, *values in cells:
        read = [MEANING.get(what, text_of)(name, number, value) for what, value in zip(settings, values, strict=True)]
        present = [value for value in read if value is not None]
        if len(present) == len(settings):
            rows.texts.append(present[0])
            rows.labels.append(present[1])
            rows.partners.append(tuple(present[2:]))
            if settings[1] == "label":
                rows.spellings.setdefault(present[1], set()).add(spelled(values[1]))
            continue
        for what, value in zip(settings, read, strict=True):
            if value is None:
                absent[what].append(number)
    problems = [f"{_listed(numbers)} no {what}" for what, numbers in absent.items() if numbers]
    if problems:
        raise UserError(f"{name}: {'; '.join(problems)}. Fill or remove these rows")
    if not rows.texts:
        raise UserError(f"{name} has no rows")
    return rows


def _csv(path: Path, columns: Columns) -> Cells:
    return _delimited(path, columns, ",")


def _tsv(path: Path, columns: Columns) -> Cells:
    return _delimited(path, columns, "\t")


def _delimited(path: Path, columns: Columns, delimiter: str) -> Cells:
    name = brief(path)
    text = _decoded(path, delimiter)
    rows = _records(name, text, delimiter)
    _, header, _ = next(rows, (0, [], 0))
    if not header:
        raise UserError(f"{name} is empty: its first row must name the columns")
    if not set(columns.values()) <= set(header):
        _check_delimiter(name, header, delimiter, _better_delimiter(text, columns) or _sign_within(header, columns))
    positions = [_position(name, header, column, setting) for setting, column in columns.items()]
    for number, (first, row, last) in enumerate(rows, start=1):
        if len(row) != len(header):
            lines = f"line {first}" if first == last else f"lines {first} to {last}"
            raise UserError(
                f"{name}, row {number} ({lines}): {len(row)} fields instead of {len(header)}; "
                'a text with a delimiter or a line break in it needs "quotes"'
            )
        yield number, *(row[position] for position in positions)


def _records(name: str, text: str, delimiter: str) -> Iterator[tuple[int, list[str], int]]:
    """Each row that is not empty, between its first and its last line."""
    csv.field_size_limit(LONGEST_FIELD)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    first = 1
    try:
        for row in reader:
            if row:
                yield first, row, reader.line_num
            first = reader.line_num + 1
    except csv.Error as error:
        line = first + _lines_before_open_quote(text, first, delimiter)
        noticed = f", noticed on line {reader.line_num}" if reader.line_num > line else ""
        raise UserError(
            f"{name}, line {line}: a quote begins there that is not closed as it should be ({brief(error)}{noticed}); "
            "quotes inside of a text are doubled"
        ) from None


def _lines_before_open_quote(text: str, first: int, delimiter: str) -> int:
    """How many lines below the first of a broken row the field begins that breaks it."""
    row = "".join(itertools.islice(io.StringIO(text, newline=""), first - 1, None))
    sound = re.match(rf'(?:(?:"[^"]*+(?:""[^"]*+)*+"|[^"{delimiter}\r\n][^{delimiter}\r\n]*+)?{delimiter})*+', row)
    return len(re.findall("\r\n|\r|\n", row[: sound.end()])) if sound else 0


def _better_delimiter(text: str, columns: Columns) -> str | None:
    """With which the header has all wanted columns."""
    for delimiter in DELIMITERS:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        if set(columns.values()) <= set(next(filter(None, reader), [])):
            return delimiter
    return None


def _sign_within(header: list[str], columns: Columns) -> str | None:
    """What may stand between columns that were read as a single one."""
    if len(header) > 1 or header[0] in columns.values():
        return None
    return next((sign for sign in DELIMITERS if sign in header[0]), None)


def _check_delimiter(name: str, header: list[str], delimiter: str, seeming: str | None) -> None:
    """That the columns of a header do not seem to have something else between them."""
    if seeming is None or seeming == delimiter:
        return
    used, wanted = ("a tab" if sign == "\t" else f"`{sign}`" for sign in (seeming, delimiter))
    ending, count = DELIMITERS[seeming], "one column" if len(header) == 1 else f"{len(header)} columns"
    rename = f"rename the file to {ending}" if ending else f"save the file with {wanted} between the columns"
    raise UserError(
        f"{name}: its first row is {count}, `{brief(delimiter.join(header))}`. The delimiter seems to be {used} "
        f"instead of {wanted}: {rename}"
    )


def _jsonl(path: Path, columns: Columns) -> Cells:
    # split("\n"), since splitlines would also cut at characters that JSON allows inside of a string
    for number, line in enumerate(_decoded(path, None).split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{brief(path)}, row {number}"
        pairs = _object(where, line, columns)
        names = [name for name, _ in pairs]
        yield number, *(pairs[_position(where, names, name, setting)][1] for setting, name in columns.items())


def _object(where: str, line: str, columns: Columns) -> list[tuple[str, Any]]:
    """The names and values of a line, a name that stands there twice included."""
    wanted = f"each line is one JSON object, with {' and '.join(f'`{brief(name)}`' for name in columns.values())}"
    try:
        pairs = json.loads(line, object_pairs_hook=list, parse_int=Number, parse_float=Number)
    except json.JSONDecodeError as error:
        raise UserError(f"{where}: not JSON ({error.msg}, character {error.pos + 1}); {wanted}") from None
    except RecursionError:
        raise UserError(f"{where}: lists or objects in each other, deeper than can be read; {wanted}") from None
    if not isinstance(pairs, list) or not all(isinstance(pair, tuple) for pair in pairs):
        raise UserError(f"{where}: not a JSON object; {wanted}")
    return pairs


def _parquet(path: Path, columns: Columns) -> Cells:
    import pyarrow
    from pyarrow import parquet

    name = brief(path)
    try:
        file = parquet.ParquetFile(path)
        names = file.schema_arrow.names
        for setting, column in columns.items():
            _position(name, names, column, setting)
        number = 0
        for batch in file.iter_batches(batch_size=1000, columns=list(dict.fromkeys(columns.values()))):
            for values in zip(*(batch.column(column) for column in columns.values()), strict=True):
                number += 1
                yield number, *(_parquet_value(name, number, value) for value in values)
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"{name}: not a readable parquet file ({brief(error)}); write it again") from None


def _parquet_value(name: str, number: int, value: Any) -> Any:
    try:
        return value.as_py()
    except UnicodeDecodeError as error:
        broken = error.object[error.start]
        raise UserError(
            f"{name}, row {number}: byte {error.start} of the value (0x{broken:02x}) is not UTF-8; save it as UTF-8"
        ) from None
    except (ValueError, ArithmeticError, LookupError) as error:  # a time that no calendar has, a zone that nobody knows
        raise UserError(
            f"{name}, row {number}: the value cannot be read ({brief(error)}); give text or a number"
        ) from None


READERS = {".csv": _csv, ".tsv": _tsv, ".jsonl": _jsonl, ".parquet": _parquet}


def _decoded(path: Path, delimiter: str | None) -> str:
    """The text of a UTF-8 file; an error names the row and line of the first broken byte."""
    content = path.read_bytes()
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in content.partition(b"\n")[0]:
        raise UserError(f"{brief(path)} begins with NUL characters, as UTF-16 has them; save it as UTF-8")
    try:
        return content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        start = error.start
    line = content.count(b"\n", 0, start) + 1
    row = line
    if delimiter is not None:
        csv.field_size_limit(LONGEST_FIELD)
        before = io.StringIO(content[:start].decode("utf-8") + "x", newline="")  # x: the broken byte belongs to a row
        row = sum(1 for cells in csv.reader(before, delimiter=delimiter) if cells) - 1
    location = f"row {row} (line {line})" if row else "the header"
    raise UserError(
        f"{brief(path)}, {location}: byte {start} of the file (0x{content[start]:02x}) is not UTF-8; save it as UTF-8"
    )


def _position(where: str, names: list[str], name: str, setting: str) -> int:
    if names.count(name) > 1:
        raise UserError(f"{where} has {names.count(name)} columns `{brief(name)}`; rename all but one")
    if name not in names:
        near = difflib.get_close_matches(name.lower(), [column.strip().lower() for column in names], n=1)
        nearest = next((column for column in names if near and column.strip().lower() == near[0]), None)
        hint = f"did you mean `{brief(nearest)}`? " if nearest is not None else ""
        raise UserError(
            f"{where} has no column `{brief(name)}`; {hint}It has {_columns(names)}. Set data.{setting} to one of them"
        )
    return names.index(name)


def _columns(names: list[str]) -> str:
    listed = ", ".join(f"`{brief(name, 80)}`" for name in names[:MOST_LISTED]) or "none"
    return listed + (f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else "")


def _listed(numbers: list[int]) -> str:
    rest = len(numbers) - 5
    shown = ", ".join(str(number) for number in numbers[:5]) + (f" and {rest} more" if rest > 0 else "")
    return f"row {shown} has" if len(numbers) == 1 else f"rows {shown} have"


SURROGATE = re.compile("[\ud800-\udfff]")
# Bounded, so that none takes long or much room: what is longer is a word. One digit of precision each is exact.
NUMBER = re.compile(r"[+-]?([0-9]{1,300}(\.[0-9]{0,300})?|\.[0-9]{1,300})([eE][+-]?[0-9]{1,9})?")
EXACT = Context(prec=600, Emax=MAX_EMAX, Emin=MIN_EMIN)
PLAINEST = 30  # digits before or after the point beyond which a number is named by its power of ten


class Number(str):
    """A number as a JSON file writes it, so that its label is made as that of the same characters in a csv file."""

    __repr__ = str.__str__


def _missing(value: Any) -> bool:
    return (
        value is None
        or (isinstance(value, float) and math.isnan(value))
        or (isinstance(value, str) and not value.strip())
    )


def _label_name(name: str, number: int, label: Any) -> str | None:
    """The class that a label names; None where there is none."""
    if _missing(label) or (isinstance(label, str) and label.strip().lower() == "nan"):
        return None
    if not isinstance(label, str | int | float | Decimal) or (isinstance(label, float) and math.isinf(label)):
        raise UserError(f"{name}, row {number}: the label is {brief(repr(label))}; give a word or a number")
    return _class(_characters(name, number, spelled(label)).strip())


def spelled(label: str | int | float | Decimal) -> str:
    """A label as the file has it."""
    return str(label).lower() if isinstance(label, bool) else str(label)


@lru_cache(maxsize=10_000)
def _class(word: str) -> str:
    """One name for the ways to write a number, or true and false."""
    if word.lower() in ("true", "false"):
        return word.lower()
    if not NUMBER.fullmatch(word):
        return word
    value = EXACT.create_decimal(word).normalize(EXACT)
    if not value:
        return "0"
    return f"{value:f}" if abs(value.adjusted()) <= PLAINEST else str(value)


def _score(name: str, number: int, score: Any) -> str | None:
    """A number as the text that stands for it, and for no other."""
    if _missing(score) or (isinstance(score, str) and score.strip().lower() == "nan"):
        return None
    try:
        value = float(score)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        raise UserError(f"{name}, row {number}: the score is {brief(repr(score))}; give a number")
    return repr(value)


def text_of(name: str, number: int, value: Any) -> str | None:
    if not _missing(value) and (isinstance(value, Number) or not isinstance(value, str)):
        kind = "number" if isinstance(value, Number | int | float | Decimal) else type(value).__name__
        raise UserError(f"{name}, row {number}: the text is {brief(value)} ({kind}); give a text")
    return None if _missing(value) else _characters(name, number, value)


# What stands in the columns that hold no text.
MEANING: Mapping[str, Callable[[str, int, Any], str | None]] = {
    "label": _label_name,
    "subset": _label_name,
    "score": _score,
}


def _characters(name: str, number: int, value: str) -> str:
    if not value.isascii() and SURROGATE.search(value):
        raise UserError(
            f"{name}, row {number}: holds half of a surrogate pair, which is no character; repair or remove it"
        )
    return value
