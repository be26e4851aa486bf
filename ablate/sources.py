"""Read other tools' results as a table: files, MLflow experiments, folders of mteb and sentence-transformers."""

import ast
import csv
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd

from ablate.table import Table, of_frame, read_file, scalar
from contrastive import paths
from contrastive.errors import UserError, brief
from contrastive.grid.messages import nearest_name
from reports.load import all_runs

MLFLOW = "mlflow:"


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
    return with_params(with_dicts(table))


def with_params(table: Table) -> Table:
    """Take params, scores and names from a frame of `mlflow.search_runs` or of Optuna's `study.trials_dataframe`.

    Params are settings. Runs of MLflow that have child runs are left out.
    """
    names, parent = {*table.frame.columns}, "tags.mlflow.parentRunId"
    if any(name.startswith("metrics.") for name in names):
        pattern = r"(?:params\.|metrics\.|tags\.mlflow\.(?=runName$)|(?=status$))(.+)"
        if {"run_id", parent} <= names:
            table = table.keep(~table.frame["run_id"].isin(table.frame[parent].dropna()))
    elif {"number", "state"} <= names and any(name.startswith("params_") for name in names):
        pattern = r"(?:params_|user_attrs_|(?=value|state$))(.+)"
    else:
        return table
    kept = {name: match[1] for name in table.frame.columns if (match := re.match(pattern, name))}
    kept = {name: "run_name" if new == "runName" else new for name, new in kept.items()}
    settings = frozenset(new for name, new in kept.items() if name.startswith("params"))
    frame = of_frame(table.frame[list(kept)].rename(columns=kept), table.name).frame
    return replace(table, frame=frame, settings=settings)


def with_dicts(table: Table) -> Table:
    """Turn the columns `config` and `summary`, in which W&B's client has dicts, into one for each of their keys."""
    frame, lines = table.frame, list[dict[str, Any]]()
    if not {"config", "summary"} <= {*frame.columns}:
        return table
    for place, line in zip(table.places, frame.to_dict("records"), strict=True):
        try:
            dicts = [ast.literal_eval(str(line.pop(name))) for name in ("config", "summary")]
            lines.append({key: value for part in (line, *dicts) for key, value in part.items() if key[:1] != "_"})
        except (ValueError, SyntaxError, TypeError) as error:
            raise UserError(f"{table.name}, {place}: config and summary should be dicts: {brief(error)}") from None
    return replace(table, frame=pd.DataFrame(lines).map(scalar))


def read_mlflow(name: str, tracking_uri: str) -> Table:
    """Read the finished runs of an experiment: their params and last metrics. Runs with child runs are left out."""
    from mlflow import MlflowClient

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
    return usual_form(Table(name, pd.DataFrame(records), places))


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
    return Table(root.name, pd.DataFrame(list(by_model.values())), [f"model {name}" for name in by_model])


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
