"""Read labelled rows from a csv, tsv, jsonl or parquet file; an error names the file and the row."""

import csv
import difflib
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from contrastive import paths
from contrastive.errors import UserError, brief

LONGEST_FIELD = 2**31 - 1  # the csv module gives up at 128 KiB by default

# Setting → column name: `text` first, then `label` or `score`, then the rest (`positive`, `other` …).
Columns = Mapping[str, str]
NumberedRows = Iterator[tuple[Any, ...]]  # row number, from 1 after the header, and the value of each column


@dataclass(frozen=True)
class Rows:
    """Texts of one source with their labels or scores. `partners` are the further columns of each text: its positive
    and negative, or the other text of its pair. `spelled` are the labels as the source writes them."""

    name: str
    texts: list[str]
    labels: list[str]
    partners: list[tuple[str, ...]] = field(default_factory=list)
    spelled: list[str] = field(default_factory=list)


def read_file(path: Path, columns: Columns) -> Rows:
    """Read the given columns of a file and check every row."""
    reader, name = READERS.get(path.suffix.lower()), brief(path)
    if reader is None:
        raise UserError(f"{name}: cannot read `{brief(path.suffix)}` files; give one of {', '.join(READERS)}")
    paths.check_file(path)
    try:
        return checked(name, reader(path, columns), tuple(columns))
    except OSError as error:
        raise UserError(f"{name} cannot be read ({error.strerror or brief(error)}); fix that, or use a copy") from None


def checked(name: str, numbered_rows: Iterable[tuple[Any, ...]], settings: tuple[str, ...] = ("text", "label")) -> Rows:
    """Parse rows given as (row number, values); raise one UserError that lists all rows with a missing value."""
    rows = Rows(name, [], [])
    missing: dict[str, list[int]] = {setting: [] for setting in settings}
    for number, *values in numbered_rows:
        try:
            parsed = [_parse(setting, value) for setting, value in zip(settings, values, strict=True)]
        except ValueError as error:
            raise UserError(f"{name}, row {number}: {error}") from None
        for setting, value in zip(settings, parsed, strict=True):
            if value is None:
                missing[setting].append(number)
        present = [value for value in parsed if value is not None]
        if len(present) == len(settings):
            rows.texts.append(present[0])
            rows.labels.append(present[1])
            rows.partners.append(tuple(present[2:]))
            rows.spelled.append(_spelled(values[1]))
    problems = [
        f"{'row' if len(numbers) == 1 else 'rows'} {listed(map(str, numbers), 5)} "
        f"{'has' if len(numbers) == 1 else 'have'} no {setting}"
        for setting, numbers in missing.items()
        if numbers
    ]
    if problems:
        raise UserError(f"{name}: {'; '.join(problems)}. Fill or remove these rows")
    if not rows.texts:
        raise UserError(f"{name} has no rows")
    return rows


def listed(words: Iterable[str], limit: int = 20) -> str:
    first, rest = (words := list(words))[:limit], len(words) - limit
    return ", ".join(first) + (f" and {rest} more" if rest > 0 else "")


def _delimited(path: Path, columns: Columns, delimiter: str) -> NumberedRows:
    name = brief(path)
    rows = records(name, decoded(path), delimiter)
    _, header = next(rows, ("", []))
    if not header:
        raise UserError(f"{name} is empty: its first row must name the columns")
    positions = [_position(name, header, column, setting) for setting, column in columns.items()]
    for number, (lines, row) in enumerate(rows, start=1):
        if len(row) != len(header):
            raise UserError(
                f"{name}, row {number} ({lines}): {len(row)} fields instead of {len(header)}; "
                "put texts that contain a delimiter or a line break in double quotes"
            )
        yield number, *(row[position] for position in positions)


def records(name: str, text: str, delimiter: str) -> Iterator[tuple[str, list[str]]]:
    """Yield (line numbers, row) for each row that is not empty."""
    csv.field_size_limit(LONGEST_FIELD)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    first = 1
    try:
        for row in reader:
            if row:
                yield _lines(first, reader.line_num), row
            first = reader.line_num + 1
    except csv.Error as error:
        raise UserError(
            f"{name}, {_lines(first, reader.line_num)}: this row has an unclosed or misplaced quote "
            f"({brief(error)}); double the quotes inside a text"
        ) from None


def _lines(first: int, last: int) -> str:
    return f"line {first}" if first == last else f"lines {first} to {last}"


def json_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (number, text) of each line that is not empty."""
    # split("\n"), since splitlines would also cut at characters that JSON allows inside a string
    return ((number, line) for number, line in enumerate(decoded(path).split("\n"), start=1) if line.strip())


def _jsonl(path: Path, columns: Columns) -> NumberedRows:
    for number, line in json_lines(path):
        where = f"{brief(path)}, row {number}"
        try:  # pairs, so that a repeated name is noticed
            pairs = json.loads(line, object_pairs_hook=list, parse_int=Number, parse_float=Number)
            if not isinstance(pairs, list) or not all(isinstance(pair, tuple) for pair in pairs):
                raise ValueError("a value of another type")
        except (ValueError, RecursionError) as error:
            expected = " and ".join(f"`{brief(name)}`" for name in columns.values())
            raise UserError(
                f"{where}: not a JSON object ({brief(error)}); write one JSON object a line, with {expected}"
            ) from None
        names = [name for name, _ in pairs]
        yield number, *(pairs[_position(where, names, name, setting)][1] for setting, name in columns.items())


def _parquet(path: Path, columns: Columns) -> NumberedRows:
    import pyarrow
    from pyarrow import parquet

    name, number = brief(path), 0
    try:
        file = parquet.ParquetFile(path)
        for setting, column in columns.items():
            _position(name, file.schema_arrow.names, column, setting)
        for batch in file.iter_batches(batch_size=1000, columns=list(dict.fromkeys(columns.values()))):
            for values in zip(*(batch.column(column) for column in columns.values()), strict=True):
                number += 1
                yield number, *(value.as_py() for value in values)
    except UserError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, ArithmeticError, LookupError) as error:
        raise UserError(
            f"{name}{f', row {number}' if number else ''}: not readable as parquet ({brief(error)}); write it again, "
            "with texts in UTF-8"
        ) from None


READERS: Mapping[str, Callable[[Path, Columns], NumberedRows]] = {
    ".csv": partial(_delimited, delimiter=","),
    ".tsv": partial(_delimited, delimiter="\t"),
    ".jsonl": _jsonl,
    ".parquet": _parquet,
}


def decoded(path: Path) -> str:
    """Return the text of a UTF-8 file; the error names the line of the first broken byte."""
    content = path.read_bytes()
    try:
        return content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = len(content[: error.start + 1].splitlines())
        raise UserError(
            f"{brief(path)}, line {line}: 0x{content[error.start]:02x} is not UTF-8; save the file as UTF-8"
        ) from None


def _position(where: str, names: list[str], name: str, setting: str) -> int:
    if names.count(name) > 1:
        raise UserError(f"{where} has {names.count(name)} columns `{brief(name)}`; rename all but one")
    if name not in names:
        nearest = {column.strip().lower(): column for column in reversed(names)}
        match = difflib.get_close_matches(name.lower(), nearest, n=1)
        hint = f"did you mean `{brief(nearest[match[0]])}`? " if match else ""
        columns = listed(f"`{brief(column, 80)}`" for column in names) or "none"
        raise UserError(
            f"{where} has no column `{brief(name)}`; {hint}It has {columns}. Set data.{setting} to one of them"
        )
    return names.index(name)


SURROGATE = re.compile("[\ud800-\udfff]")
# Bounded, so that no number takes long or much memory; anything longer is a word. EXACT has precision for all digits.
NUMBER = re.compile(r"[+-]?([0-9]{1,300}(\.[0-9]{0,300})?|\.[0-9]{1,300})([eE][+-]?[0-9]{1,9})?")
EXACT = Context(prec=600, Emax=MAX_EMAX, Emin=MIN_EMIN)
PLAINEST = 30  # digits before or after the point beyond which a number is written with a power of ten


class Number(str):
    """A number as a JSON file writes it: the same characters give the same label in a csv file."""

    __repr__ = str.__str__


def _parse(setting: str, value: Any) -> str | None:
    """Return the checked value of a field in the column of this setting; None if the field is empty."""
    parsed = PARSERS.get(setting, _text)(value)
    if parsed is not None and SURROGATE.search(parsed):
        raise ValueError("contains half of a surrogate pair, which is not a character; repair or remove it")
    return parsed


def _text(value: Any) -> str | None:
    if not value.strip() if isinstance(value, str) else value is None or str(value) == "nan":
        return None
    if isinstance(value, Number) or not isinstance(value, str):
        kind = "number" if isinstance(value, Number | int | float | Decimal) else type(value).__name__
        raise ValueError(f"the text is {brief(value)} ({kind}); give a text")
    return value


def _label(label: Any) -> str | None:
    """Return the class that a label names."""
    if _is_empty(label):
        return None
    if not isinstance(label, str | int | float | Decimal) or (isinstance(label, float) and math.isinf(label)):
        raise ValueError(f"{brief(repr(label))} is not a label; use a word or a number")
    return _one_spelling(_spelled(label).strip())


def _score(score: Any) -> str | None:
    """Return a number in its one canonical spelling."""
    if _is_empty(score):
        return None
    try:
        value = float(score)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"the score is {brief(repr(score))}; give a number")
    return repr(value)


# Parsers of the columns that hold no text.
PARSERS: Mapping[str, Callable[[Any], str | None]] = {"label": _label, "score": _score}


def _is_empty(value: Any) -> bool:
    return value is None or str(value).strip().lower() in ("", "nan")


def _spelled(label: Any) -> str:
    """Return a label as the file writes it."""
    return str(label).lower() if isinstance(label, bool) else str(label)


@lru_cache(maxsize=10_000)
def _one_spelling(word: str) -> str:
    """Return one name for all spellings of a number, or of true and false."""
    if word.lower() in ("true", "false"):
        return word.lower()
    if not NUMBER.fullmatch(word):
        return word
    value = EXACT.create_decimal(word).normalize(EXACT)
    if not value:
        return "0"
    return f"{value:f}" if abs(value.adjusted()) <= PLAINEST else str(value)
