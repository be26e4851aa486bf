"""Texts and labels, written as a file of each format."""

import json
from pathlib import Path

import pyarrow
from pyarrow import parquet

COLUMNS = {"text": "text", "label": "label"}


def quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def write(path: Path, texts: list, labels: list) -> Path:
    if path.suffix == ".parquet":
        parquet.write_table(pyarrow.table({"text": texts, "other": texts, "label": labels}), path)
    elif path.suffix == ".jsonl":
        lines = [
            json.dumps({"label": label, "text": text}, ensure_ascii=False)
            for text, label in zip(texts, labels, strict=True)
        ]
        path.write_text("\n".join(lines), encoding="utf-8", newline="")
    else:
        between = {".csv": ",", ".tsv": "\t"}[path.suffix]
        rows = [("label", "text"), *((label, quoted(text)) for text, label in zip(texts, labels, strict=True))]
        path.write_text("\r\n".join(between.join(row) for row in rows), encoding="utf-8", newline="")
    return path
