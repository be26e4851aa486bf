"""Read tables of other programs: a CSV, TSV, Parquet or JSON lines file, a data frame, or an MLflow experiment.

Each line of a table has its place, such as `line 5`, for messages.
"""

import json
import math
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from contrastive import paths
from contrastive.data.files import decoded, json_lines, records
from contrastive.errors import UserError, brief, brief_name
from contrastive.grid.messages import nearest_name

MLFLOW = "mlflow:"
READERS = (".csv", ".tsv", ".parquet", ".jsonl")
POINT, COMMA = re.compile(r"[-+]?\d+\.\d+(?:e[-+]?\d+)?%?", re.IGNORECASE), re.compile(r"[-+]?\d+,\d+%?")
MISSING = ("", "na", "n/a", "nan", "none", "null", "-", "–")
EXACT = 2**53  # larger whole numbers, such as seeds, stay integers


@dataclass(frozen=True)
class Table:
    """A table as it was read; each line of the frame is indexed by its place, such as "line 5"."""

    name: str
    frame: pd.DataFrame
    settings: frozenset[str] = frozenset()  # columns that are known to be no scores


def read(source: str, tracking_uri: str) -> Table:
    """Read a source: a file, or `mlflow:EXPERIMENT`."""
    if source.startswith(MLFLOW):
        return read_mlflow(source.removeprefix(MLFLOW), tracking_uri)
    path = paths.expand_user(source)
    paths.check_file(path, "table")
    suffix = path.suffix.lower()
    if suffix not in READERS:
        raise UserError(
            f"{brief(path)}: a table is a file {', '.join(READERS)}. From any data frame:\n"
            'import ablate\nprint(ablate.judge(frame, baseline="ROW"))'
        )
    if suffix == ".parquet":
        return of_frame(read_parquet(path), path.name)
    lines = list(read_json_lines(path) if suffix == ".jsonl" else read_delimited(path))
    if not lines:
        raise UserError(f"{brief(path)} has no lines; it needs one for each run")
    return Table(path.name, pd.DataFrame([values for _, values in lines], [place for place, _ in lines]).map(plain))


def of_frame(frame: pd.DataFrame, name: str) -> Table:
    """Return a data frame as a table; its named index levels become columns."""
    if frame.empty:
        raise UserError(f"{name} has no lines; it needs one for each run")
    if any(level is not None for level in frame.index.names):
        frame = frame.reset_index()
    frame = frame.set_axis([*map(str, frame.columns)], axis=1)
    if not frame.columns.is_unique:
        raise UserError(f"{name} has the column {frame.columns[frame.columns.duplicated()][0]} twice; rename one")
    return Table(name, frame.set_axis([f"row {number}" for number in range(1, len(frame) + 1)]).map(plain))


def plain(value: Any) -> Any:
    """Return a nested value, such as a dict of settings, as text; texts that look the same become the same text."""
    text = str(value) if hasattr(value, "__len__") else value
    return unicodedata.normalize("NFC", text).strip() if isinstance(text, str) else text


def read_parquet(path: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path)
    except ImportError:
        raise UserError(f"{brief(path)}: Parquet files need pyarrow; install it, or save the table as CSV") from None
    except Exception as error:  # pyarrow raises many types
        raise UserError(f"{brief(path)} cannot be read: {brief(error)}; write it again, or as CSV") from None


def read_json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in json_lines(path):
        try:
            values = json.loads(line)
        except ValueError as error:
            raise UserError(f"{brief(path)}, line {number}: not JSON ({error}); write one object a line") from None
        if not isinstance(values, dict):
            raise UserError(f'{brief(path)}, line {number}: expected an object such as {{"model": "a", "seed": 0}}')
        yield f"line {number}", values


def read_delimited(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the place and values of each line; the delimiter is that of the header: comma, semicolon or tab."""
    text = decoded(path)
    header = text.lstrip("\r\n").split("\n", 1)[0]
    delimiter = max(",;\t", key=header.count)
    lines = [(place, [value.strip() for value in values]) for place, values in records(brief(path), text, delimiter)]
    lines = [(place, values) for place, values in lines if any(values)]
    (place, names), lines = lines[0] if lines else ("line 1", []), lines[1:]
    names = [names[0] or "index", *names[1:]] if names else []  # pandas leaves the title of its index empty
    for name in names:
        if not name or names.count(name) > 1:
            wrong = (
                f"the column {brief_name(name)} is there twice" if name else f"column {names.index('') + 1} has no name"
            )
            raise UserError(f"{brief(path)}, {place}: {wrong}; the first line names each column once")
    commas = delimiter != "," and any(COMMA.fullmatch(value) for _, values in lines for value in values)
    for place, values in lines:
        if len(values) != len(names):
            wrong = f"{len(values)} fields, but the header has {len(names)}"
            raise UserError(f"{brief(path)}, {place}: {wrong}; put texts that contain a delimiter in double quotes")
        if commas and (points := [value for value in values if POINT.fullmatch(value)]):
            wrong = f"`{points[0]}` has a decimal point, other numbers a comma"
            raise UserError(f"{brief(path)}, {place}: {wrong}; write all numbers with a point")
        values = [value.replace(",", ".") if commas and COMMA.fullmatch(value) else value for value in values]
        yield place, dict(zip(names, values, strict=True))


def read_mlflow(name: str, tracking_uri: str) -> Table:
    """Read the runs of an experiment that have ended: params, last metrics and status. Parents of runs are left out."""
    from mlflow import MlflowClient  # which takes a second

    from reports.load import all_runs

    client = MlflowClient(tracking_uri=tracking_uri)
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        names = [other.name for other in client.search_experiments()]
        raise UserError(f"MLflow has no experiment {name}{nearest_name(name, names)}; check MLFLOW_TRACKING_URI")
    runs = all_runs(client, experiment.experiment_id)[::-1]
    parents = {run.data.tags.get("mlflow.parentRunId") for run in runs}
    runs = [run for run in runs if run.info.run_id not in parents]
    runs = [run for run in runs if run.data.metrics or run.info.status == "FAILED"]
    if not any(run.info.status == "FINISHED" for run in runs):
        raise UserError(f"the MLflow experiment {name} has no finished run with metrics")
    lines = [{"status": run.info.status} | run.data.params | run.data.metrics for run in runs]
    places = [f"run {run.info.run_name} ({run.info.run_id[:8]})" for run in runs]
    params = frozenset(param for run in runs for param in run.data.params)
    return Table(name, pd.DataFrame(lines, places).map(plain), params)


def number_of(value: Any) -> float | None:
    """Return a value as a number, NaN for a missing one, and None for text. Large whole numbers are exact."""
    if value is None or (isinstance(value, str) and value.strip().lower() in MISSING):
        return math.nan
    try:
        number = float(value.strip().removesuffix("%") if isinstance(value, str) else value)
        whole = EXACT <= abs(number) < math.inf and str(value).strip().lstrip("+-").isdecimal()
        return int(value) if whole else number
    except OverflowError:
        return math.inf
    except (TypeError, ValueError):
        return None


def whole(value: Any) -> int | None:
    """Return a value as a whole number; None if it is none."""
    number = number_of(value)
    return int(number) if number is not None and math.isfinite(number) and number == math.floor(number) else None


def is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value)) or str(value).strip() == ""
