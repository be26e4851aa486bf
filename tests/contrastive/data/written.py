"""Labelled texts, written as a file of each format."""

import json
from collections.abc import Iterable
from pathlib import Path

import pyarrow
from pyarrow import parquet

from contrastive.data.files import Rows

COLUMNS = {"text": "text", "label": "label"}
# A hundred texts of two classes, and of each one the positive, which is another of them, and the negative.
POOL = Rows("pool.csv", [f"text {i}" for i in range(100)], ["pos" if i % 2 else "neg" for i in range(100)])
PARTNERS = [(f"text {(i + 1) % 100}", f"not {i}") for i in range(100)]


def quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def write(path: Path, texts: list, labels: list, **more: list) -> Path:
    """A file with the columns `label`, `text`, and those of `more`."""
    if path.suffix == ".parquet":
        parquet.write_table(pyarrow.table({"other": texts, "text": texts, "label": labels} | more), path)
        return path
    rows = list(zip(labels, texts, *more.values(), strict=True))
    if path.suffix == ".jsonl":
        names = ("label", "text", *more)
        lines = [json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) for row in rows]
        path.write_text("\n".join(lines), encoding="utf-8", newline="")
    else:
        between = {".csv": ",", ".tsv": "\t"}[path.suffix]
        cells = [("label", "text", *more), *((row[0], *map(quoted, row[1:])) for row in rows)]
        path.write_text("\r\n".join(map(between.join, cells)), encoding="utf-8", newline="")
    return path


def table(path: Path, header: str, rows: Iterable[Iterable[object]]) -> str:
    """The source that a file with these rows is, without quotes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n", encoding="utf-8")
    return f"file:{path}"
