"""Labelled rows from a file: csv, tsv, jsonl or parquet. A mistake in a file is told with its file and row."""

import csv
import difflib
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contrastive.errors import UserError

LONGEST_FIELD = 2**31 - 1  # the csv module gives up at 128 KiB by default
SURROGATE = re.compile("[\ud800-\udfff]")

# Setting → the column that it names: `text`, then `label` or `score`, then the others, `positive`, `other`, `subset` …
Columns = Mapping[str, str]
Cells = Iterator[tuple[Any, ...]]  # row number from 1 (a header is none), and what stands in each of the columns


@dataclass(frozen=True)
class Rows:
    """Texts with the name of their label, or their score, as they stand in one source. `partners` are what else belongs
    to a text: its positive and negative, or the other text of its pair, and the subset."""

    name: str
    texts: list[str]
    labels: list[str]
    partners: list[tuple[str, ...]] = field(default_factory=list)


def read(path: Path, columns: Columns) -> Rows:
    """Some columns of a file, every row checked."""
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise UserError(f"{path}: cannot read `{path.suffix}` files; give one of {', '.join(READERS)}")
    if not path.is_file():
        raise UserError(not_there(path))
    return checked(str(path), reader(path, columns), tuple(columns))


def checked(name: str, cells: Iterable[tuple[Any, ...]], settings: tuple[str, ...] = ("text", "label")) -> Rows:
    """Rows in which nothing is missing; otherwise one error that names the rows."""
    rows = Rows(name, [], [])
    absent: dict[str, list[int]] = {what: [] for what in settings}
    for number, *values in cells:
        read = [MEANING.get(what, _text)(name, number, value) for what, value in zip(settings, values, strict=True)]
        present = [value for value in read if value is not None]
        if len(present) == len(settings):
            rows.texts.append(present[0])
            rows.labels.append(present[1])
            rows.partners.append(tuple(present[2:]))
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
    csv.field_size_limit(LONGEST_FIELD)
    reader = csv.reader(io.StringIO(_decoded(path, delimiter), newline=""), delimiter=delimiter, strict=True)
    try:
        rows = (row for row in reader if row)
        header = next(rows, [])
        if not header:
            raise UserError(f"{path} is empty: its first row must name the columns")
        positions = [_position(path, header, name, setting) for setting, name in columns.items()]
        for number, row in enumerate(rows, start=1):
            if len(row) != len(header):
                raise UserError(
                    f"{path}, row {number} (line {reader.line_num}): {len(row)} fields instead of {len(header)}; "
                    'a text with a delimiter or a line break in it needs "quotes"'
                )
            yield number, *(row[position] for position in positions)
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: {error}; quotes inside of a text are doubled") from None


def _jsonl(path: Path, columns: Columns) -> Cells:
    # split("\n"), since splitlines would also cut at characters that JSON allows inside of a string
    for number, line in enumerate(_decoded(path, None).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            pairs = json.loads(line, object_pairs_hook=list)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path}, row {number}: not JSON ({error})") from None
        if not isinstance(pairs, list) or not all(isinstance(pair, tuple) for pair in pairs):
            wanted = " and ".join(f"`{name}`" for name in columns.values())
            raise UserError(f"{path}, row {number}: not a JSON object; each line is one, with {wanted}")
        names = [name for name, _ in pairs]
        where = f"{path}, row {number}"
        yield number, *(pairs[_position(where, names, name, setting)][1] for setting, name in columns.items())


def _parquet(path: Path, columns: Columns) -> Cells:
    import pyarrow
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(path)
        names = file.schema_arrow.names
        for setting, name in columns.items():
            _position(path, names, name, setting)
        number = 0
        for batch in file.iter_batches(batch_size=1000, columns=list(dict.fromkeys(columns.values()))):
            for values in zip(*(batch.column(name) for name in columns.values()), strict=True):
                number += 1
                yield number, *(_parquet_value(path, number, value) for value in values)
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"{path}: not a readable parquet file ({error})") from None


def _parquet_value(path: Path, number: int, value: Any) -> Any:
    try:
        return value.as_py()
    except UnicodeDecodeError as error:
        broken = error.object[error.start]
        raise UserError(
            f"{path}, row {number}: byte {error.start} of the value (0x{broken:02x}) is not UTF-8"
        ) from None


READERS = {".csv": _csv, ".tsv": _tsv, ".jsonl": _jsonl, ".parquet": _parquet}


def _decoded(path: Path, delimiter: str | None) -> str:
    """The text of a UTF-8 file; an error names the row and line of the first broken byte."""
    content = path.read_bytes()
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
    place = f"row {row} (line {line})" if row else "the header"
    raise UserError(
        f"{path}, {place}: byte {start} of the file (0x{content[start]:02x}) is not UTF-8; save it as UTF-8"
    )


def _position(where: object, names: list[str], name: str, setting: str) -> int:
    if names.count(name) > 1:
        raise UserError(f"{where} has {names.count(name)} columns `{name}`; rename all but one")
    if name not in names:
        near = difflib.get_close_matches(name.lower(), [known.strip().lower() for known in names], n=1)
        nearest = next((known for known in names if near and known.strip().lower() == near[0]), None)
        hint = f"did you mean `{nearest}`? " if nearest is not None else ""
        listed = ", ".join(f"`{known}`" for known in names)
        raise UserError(f"{where} has no column `{name}`; {hint}It has {listed}. Set data.{setting} to one of them")
    return names.index(name)


def _missing(value: Any) -> bool:
    return (
        value is None
        or (isinstance(value, float) and math.isnan(value))
        or (isinstance(value, str) and not value.strip())
    )


def _label_name(name: str, number: int, label: Any) -> str | None:
    """A label as a word: 1 and 1.0 are one class, as files with a gap somewhere turn whole numbers into fractions."""
    if _missing(label) or (isinstance(label, str) and label.strip().lower() == "nan"):
        return None
    if not isinstance(label, str | int | float):
        raise UserError(f"{name}, row {number}: the label is {label!r}; give a word or a number")
    if isinstance(label, float) and label.is_integer():
        label = int(label)
    return _characters(name, number, str(label).strip())


def _score(name: str, number: int, score: Any) -> str | None:
    """A number as the text that stands for it, and for no other."""
    if _missing(score) or (isinstance(score, str) and score.strip().lower() == "nan"):
        return None
    try:
        value = float(score)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise UserError(f"{name}, row {number}: the score is {score!r}; give a number")
    return repr(value)


def _text(name: str, number: int, value: Any) -> str | None:
    return None if _missing(value) else _characters(name, number, value)


# What stands in the columns that hold no text.
MEANING: Mapping[str, Callable[[str, int, Any], str | None]] = {
    "label": _label_name,
    "subset": _label_name,
    "score": _score,
}


def _characters(name: str, number: int, value: Any) -> str:
    if not isinstance(value, str):
        raise UserError(f"{name}, row {number}: the text is {value!r} ({type(value).__name__}), not a text")
    if not value.isascii() and SURROGATE.search(value):
        raise UserError(
            f"{name}, row {number}: holds half of a surrogate pair, which is no character; repair or remove it"
        )
    return value


def _listed(numbers: list[int]) -> str:
    rest = len(numbers) - 5
    shown = ", ".join(str(number) for number in numbers[:5]) + (f" and {rest} more" if rest > 0 else "")
    return f"row {shown} has" if len(numbers) == 1 else f"rows {shown} have"


def not_there(path: Path) -> str:
    """That a file is missing, where it was sought, and what has nearly its name."""
    folder = path.absolute().parent
    if path.is_dir():
        return f"{path} is a folder; name a csv, tsv, jsonl or parquet file in it"
    if not folder.is_dir():
        return f"there is no file {path}: there is no folder {folder}"
    near = difflib.get_close_matches(path.name, [other.name for other in folder.iterdir()], n=1)
    return f"there is no file {path} in {folder}" + (f"; did you mean {near[0]}?" if near else "")
