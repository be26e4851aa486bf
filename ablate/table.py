"""Read other tools' results as a table: files, MLflow experiments, folders of mteb and sentence-transformers.

Each line of a table has its place, such as `line 5`, for messages.
"""

import ast
import csv
import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import pandas as pd

from ablate import json_tables
from contrastive import paths
from contrastive.data.files import decoded, json_lines, records
from contrastive.errors import UserError, brief, brief_name
from contrastive.grid.messages import nearest_name
from reports.study import Kind

MLFLOW = "mlflow:"
SUFFIXES = (".csv", ".tsv", ".parquet", ".jsonl", ".json", ".xlsx", ".md")
DELIMITERS = ",;\t"
BAR = "\ue000"  # for what Markdown writes as \\| in a cell
PIVOTED = ("seed", "run", "trial", "fold", "repeat")  # names of the columns of a pivoted frame
UNNAMED = "index"  # the first column of a table that pandas wrote: numbers of lines, or names
UNITS = r"[nuµm]?s|secs?|seconds|mins?|minutes|h|hours?|[kKMGT]i?B|(?:tok|tokens|texts|samples|it)/s"
DECIMAL = re.compile(  # 1.234,5 %
    rf"[-+]?(?:\d+|\d{{1,3}}(?:,\d{{3}})+(?=\.)|\d{{1,3}}(?:\.\d{{3}})+(?=,))([.,])\d+(?: ?(?:%|{UNITS}))?"
)
NUMBER_OR_NONE = re.compile(r"[-+]?\d[\d.,]*(?:e[-+]?\d+)?(?: ?%)?|-|–|n/?a|nan|none|null|", re.IGNORECASE)
AMBIGUOUS = re.compile(r"[-+]?[1-9]\d{0,2},\d{3}")  # 1,234 in a file whose delimiter is a comma


@dataclass(frozen=True)
class Table:
    """A table as it was read: one line per value of a row, a seed and perhaps a text."""

    name: str
    frame: pd.DataFrame  # each line is indexed by its place, such as "line 5"
    kinds: Mapping[str, Kind] = field(default_factory=dict)  # of scores whose kind the table says
    settings: frozenset[str] = frozenset()  # columns that are known to be no scores
    failed: pd.DataFrame = field(default_factory=pd.DataFrame)  # lines of runs that failed
    still_open: pd.DataFrame = field(default_factory=pd.DataFrame)  # lines of runs that have not ended
    state: str = ""  # the column that says so


@dataclass(frozen=True)
class Columns:
    """The columns of a table by what they hold: what a user names, or what the rules know so far."""

    row: tuple[str, ...]
    scores: tuple[str, ...]
    seed: str | None = None
    text: str | None = None
    data: str | None = None
    section: str | None = None  # of our own export, if it has several
    worded: bool = False  # whether the seeds are words, such as the names of raters
    fold: str | None = None  # beside `seed`, if each seed has several
    folds: int = 0  # of a cross-validation, if the runs are its folds
    deviations: tuple[str, ...] = ()  # with `count`: a table of means
    count: str | None = None
    unused: tuple[str, ...] = ()  # columns of numbers that were taken for no scores
    unpaired: Literal["", "numbered", "sorted"] = ""  # why equal values of `seed` are not paired
    notes: tuple[str, ...] = ()  # what users should know about how the table was read
    reading: Mapping[str, Mapping[str, object]] = field(default_factory=dict)  # and readers: see reports/guards/rows.py

    @property
    def pairing(self) -> Literal["seeds", "none", "means"]:
        return "means" if self.deviations else "seeds" if self.seed and not self.unpaired else "none"

    @property
    def keys(self) -> list[str]:
        """The columns that tell lines apart, but for the row."""
        return [name for name in (self.seed, self.text, self.data, self.section, self.fold) if name]

    @property
    def groups(self) -> list[str]:
        """The columns that name a row, its data set and its section."""
        return [*self.row, *filter(None, (self.data, self.section))]


def read(source: str, tracking_uri: str) -> Table:
    """Read a source: a file, `mlflow:EXPERIMENT`, `mteb:FOLDER` or `sentence-transformers:FOLDER`."""
    tool, colon, name = source.partition(":")
    if tool + colon == MLFLOW:
        return read_mlflow(name, tracking_uri)
    if tool + colon == "mteb:":
        return read_folder(name, "*.json", mteb_scores, "results of mteb (MODEL/REVISION/TASK.json)")
    if tool + colon == "sentence-transformers:":
        what = "results of sentence-transformers' evaluators (*_results.csv)"
        return read_folder(name, "*_results.csv", evaluator_scores, what)
    return usual_form(read_file(source))


def usual_form(table: Table) -> Table:
    """Return a table as trackers' clients write it with a column for each param and score."""
    return with_params(with_dicts(with_splits(table)))


def with_splits(table: Table) -> Table:
    """Turn `cv_results_` of scikit-learn, which has a column for each split, into a line for each.

    Number the lines of a row that `cross_validate` returned.
    """
    splits = {name: match for name in table.frame.columns if (match := re.fullmatch(r"split(\d+)_(test_.+)", name))}
    settings = {name: name.removeprefix("param_") for name in table.frame.columns if name.startswith("param_")}
    frame, names = table.frame, {*table.frame.columns}
    words = [name for name in frame.columns if frame[name].map(lambda value: isinstance(value, str)).all()]
    numbered = {"split", "random_state", *PIVOTED} & {name.lower() for name in names}
    if "fit_time" in names and any(name.startswith("test_") for name in names) and words and not numbered:
        return replace(table, frame=frame.assign(fold=frame.groupby(words).cumcount()))
    if not splits or not settings:
        return table
    lines, places = list[dict[str, Any]](), list[str]()
    for place, line in zip(table.frame.index, table.frame.to_dict("records"), strict=True):
        own = {new: "none" if (value := line[name]) in ("", None) or value != value else str(value)
               for name, new in settings.items()}  # fmt: skip
        for fold in dict.fromkeys(match[1] for match in splits.values()):
            scores = {match[2]: line[name] for name, match in splits.items() if match[1] == fold}
            lines.append(own | {"fold": int(fold)} | scores)
            places.append(f"{place}, split {fold}")
    kinds = {match[2]: Kind(True, None) for match in splits.values()}  # in scikit-learn, higher is always better
    return replace(table, frame=pd.DataFrame(lines, places), settings=frozenset(settings.values()), kinds=kinds)


def with_params(table: Table) -> Table:
    """Take params, scores and names from a frame of `mlflow.search_runs` or of Optuna's `study.trials_dataframe`.

    Params are settings. Runs of MLflow that have child runs are left out.
    """
    names, parent = {*table.frame.columns}, "tags.mlflow.parentRunId"
    if any(name.startswith("metrics.") for name in names):
        pattern = r"(?:params\.|metrics\.|tags\.mlflow\.(?=runName$)|(?=status$))(.+)"
        if {"run_id", parent} <= names:
            children = table.frame[parent].dropna()
            table = replace(table, frame=table.frame[~table.frame["run_id"].isin(children)])
    elif {"number", "state"} <= names and any(name.startswith("params_") for name in names):
        pattern = r"(?:params_|user_attrs_|(?=value|state$))(.+)"
    else:
        return table
    kept = {name: match[1] for name in table.frame.columns if (match := re.match(pattern, name))}
    kept = {name: "run_name" if new == "runName" else new for name, new in kept.items()}
    settings = frozenset(new for name, new in kept.items() if name.startswith("params"))
    frame = of_frame(table.frame[list(kept)].rename(columns=kept), table.name).frame
    return replace(table, frame=frame.set_axis(table.frame.index), settings=settings)


def with_dicts(table: Table) -> Table:
    """Turn the columns `config` and `summary`, in which W&B's client has dicts, into one for each of their keys."""
    frame, lines = table.frame, list[dict[str, Any]]()
    if not {"config", "summary"} <= {*frame.columns}:
        return table
    for place, line in zip(frame.index, frame.to_dict("records"), strict=True):
        try:
            dicts = [ast.literal_eval(str(line.pop(name))) for name in ("config", "summary")]
            lines.append({key: value for part in (line, *dicts) for key, value in part.items() if key[:1] != "_"})
        except (ValueError, SyntaxError, TypeError, AttributeError) as error:
            raise UserError(f"{table.name}, {place}: config and summary should be dicts: {brief(error)}") from None
    return replace(table, frame=pd.DataFrame(lines, frame.index).map(scalar))


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
    return Table(path.name, pd.DataFrame([values for _, values in lines], [place for place, _ in lines]).map(scalar))


def of_frame(frame: pd.DataFrame, name: str) -> Table:
    """Return a data frame as a table."""
    if frame.empty:
        raise UserError(f"{name} has no rows; it needs one for each row and seed")
    titles = [" ".join(map(str, title)) if isinstance(title, tuple) else str(title) for title in [*frame.columns]]
    if str(frame.columns.name).lower() in PIVOTED:  # a column for each seed, as `pivot` writes them
        titles = [f"{frame.columns.name} {title}" if title.isdecimal() else title for title in titles]
    frame = frame.set_axis(titles, axis=1)
    if any(name is not None for name in frame.index.names):  # as after `groupby`
        frame = pd.concat([frame.index.to_frame().rename(columns=str), frame], axis=1)
    if not frame.columns.is_unique:
        raise UserError(f"{name} has the column {frame.columns[frame.columns.duplicated()][0]} twice; rename one")
    return Table(name, frame.set_axis([f"row {number}" for number in range(1, len(frame) + 1)]).map(scalar))


def scalar(value: Any) -> Any:
    """Return a nested value, such as a dict of settings, as text, and texts that look the same as the same text."""
    text = str(value) if hasattr(value, "__len__") else value
    return unicodedata.normalize("NFC", text) if isinstance(text, str) else text


def _whole_file(path: Path, suffix: str) -> pd.DataFrame:
    text = decoded(path) if suffix == ".json" else ""
    try:
        if text:
            return json_tables.frame_of(text)
        return pd.read_parquet(path) if suffix == ".parquet" else pd.read_excel(path)
    except ImportError:
        needs = "Parquet files need pyarrow" if suffix == ".parquet" else "Excel files need openpyxl"
        raise UserError(f"{brief(path)}: {needs}; install it, or save the table as CSV") from None
    except Exception as error:  # pyarrow and openpyxl raise many types
        raise UserError(f"{brief(path)} cannot be read: {brief(error)}; write it again, or as CSV") from None


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
    if suffix == ".md":  # its lines that begin with |
        text = re.sub(r"^(?![ \t]*\|).+", "", text, flags=re.MULTILINE).replace(r"\|", BAR)
        if (count := len(re.findall(r"^[ \t]*\|[-:| \t]*-[-:| \t]*$", text, re.MULTILINE))) != 1:
            raise UserError(f"{brief(path)} has {count} tables whose lines begin with |; keep the lines of one")
    else:
        text = without_comments(text)
    first = text.lstrip("\r\n").split("\n", 1)[0]
    delimiter = "\t" if suffix == ".tsv" else max(DELIMITERS, key=first.count)
    if first.lstrip().startswith("|"):  # Markdown
        text, delimiter = re.sub(r"^[-:| \t]+(?=\r?$)|^[ \t]*\||\|[ \t]*(?=\r?$)", "", text, flags=re.MULTILINE), "|"
    names, signs, rows = list[str](), dict[str, str](), list[tuple[str, list[str]]]()
    for place, values in records(brief(path), text, delimiter):
        values = [value.strip().replace(BAR, "|") for value in values]
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


def without_comments(text: str) -> str:
    """Blank the lines above the header that begin with #; the last is the header itself if numbers follow it."""
    comments = re.match(r"(?:\s*#.*(?:\n|$))+", text)
    if comments is None:
        return text
    after = text[comments.end() :].split("\n", 1)[0]
    delimiter = max(DELIMITERS, key=after.count)
    last = comments[0].rstrip().rsplit("\n", 1)[-1].lstrip("# \t")
    has_numbers = any(NUMBER_OR_NONE.fullmatch(value.strip()) for value in after.split(delimiter))
    is_header = has_numbers and last.count(delimiter) == after.count(delimiter) > 0
    lines = comments[0].count("\n")
    return "\n" * (lines - is_header) + f"{last}\n" * is_header + text[comments.end() :]


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


def read_mlflow(name: str, tracking_uri: str) -> Table:
    """Read the finished runs of an experiment: their params and last metrics. Runs with child runs are left out."""
    from mlflow import MlflowClient  # which takes a second

    from reports.load import all_runs

    client = MlflowClient(tracking_uri=tracking_uri)
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        names = [each.name for each in client.search_experiments()]
        raise UserError(f"MLflow has no experiment {name}{nearest_name(name, names)}; check MLFLOW_TRACKING_URI")
    runs = all_runs(client, experiment.experiment_id)[::-1]
    runs = [run for run in runs if run.data.metrics or run.info.status == "FAILED"]
    records = [
        {"run_id": run.info.run_id, "status": run.info.status, "tags.mlflow.runName": run.info.run_name}
        | {"tags.mlflow.parentRunId": run.data.tags.get("mlflow.parentRunId")}
        | {f"params.{key}": value for key, value in run.data.params.items()}
        | {f"metrics.{key}": value for key, value in run.data.metrics.items()}
        for run in runs
    ]
    if not any(run.info.status == "FINISHED" for run in runs):
        raise UserError(f"the MLflow experiment {name} has no finished run with metrics")
    places = [f"run {run.info.run_name} ({run.info.run_id[:8]})" for run in runs]
    return usual_form(Table(name, pd.DataFrame(records, places)))


def read_folder(folder: str, pattern: str, scores_of: Callable[[Path], dict[str, float]], what: str) -> Table:
    """Read the scores of one model per folder. `scores_of` returns those of a file, nothing for other files."""
    root = paths.expand_user(folder)
    paths.check_folder(root)
    by_model: dict[str, dict[str, Any]] = {}
    for path in sorted(root.rglob(pattern)):
        if scores := scores_of(path):
            parts = path.relative_to(root).parts[:-1]
            inner = len(parts) > 1 and (pattern == "*.json" or parts[-1] == "eval")  # mteb's revision, or evaluators'
            model = "/".join(parts[:-1] if inner else parts) or "model"
            known = by_model.setdefault(model, {"model": model})
            if twice := [score for score in scores if score in known]:
                what = f"{twice[0]} of {model} is there twice, such as for two revisions"
                raise UserError(f"{brief(path)}: {what}; keep one")
            known.update(scores)
    if not by_model:
        raise UserError(f"{brief(root)} has no {what}")
    return Table(root.name, pd.DataFrame(list(by_model.values()), [f"model {name}" for name in by_model]))


def mteb_scores(path: Path) -> dict[str, float]:
    """Return the main score of a task: the mean over its subsets, of the test split if there are several."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        splits = content["scores"]
        chosen = splits.get("test") or next(iter(splits.values()))
        return {str(content["task_name"]): fmean(float(part["main_score"]) for part in chosen)}
    except (ValueError, KeyError, TypeError, StopIteration, AttributeError):
        return {}  # another file of mteb, such as model_meta.json


def evaluator_scores(path: Path) -> dict[str, float]:
    """Return the last line of an evaluator's file; each metric is named with the evaluator."""
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    name = path.name.removesuffix("_results.csv")
    found = {key: value for key, value in (lines[-1] if lines else {}).items() if key not in ("epoch", "steps")}
    try:
        return {f"{name}.{key}": float(value) for key, value in found.items() if value}
    except ValueError as error:
        raise UserError(f"{brief(path)}, last line: {error}; it should hold numbers") from None
