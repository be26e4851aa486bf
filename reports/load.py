"""Load all results of an experiment from MLflow, the only source of a report."""

import gc
import logging
import math
import os
import sqlite3
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import numpy as np
import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Run, RunData, RunInfo
from pydantic import TypeAdapter, ValidationError

from contrastive.errors import UserError
from contrastive.evaluation.metrics.types import Score
from contrastive.runs.recorded import RecordedGrid, first_problem, parse_grid, parse_provenance
from reports.study import MEASURED, CellRun, Kind, Picture, Results, study_of

logger = logging.getLogger(__name__)

PAGE = 1000  # runs per request
SQLITE = "sqlite:///"
WRITER_TIMEOUT = 60.0  # seconds to wait for a writer
CURVES = ("loss", "gradient_norm")
TERMS = ("gradient_norm.", "excess.")  # prefixes of curves of single loss terms
POINTS = ["cell", "key", "step", "value"]
IMAGES = ("near", "near_labels", "images", "image_ids")  # arrays of a picture that only data of images have
ONE_POINT = 1e-3  # a spread too small to see: t-SNE starts at 1e-4 and ends in units of 1


class NotFetched(Exception):
    """MLflow failed to deliver a file of a run, possibly while a report is being built."""


def all_runs(client: MlflowClient, experiment_id: str) -> list[Run]:
    """Fetch all runs, newest first. Garbage collection is off meanwhile: it would scan thousands of new objects."""
    uri, collects = str(client.tracking_uri), gc.isenabled()
    gc.disable()
    try:
        if uri.startswith(SQLITE) and "?" not in uri:
            with suppress(sqlite3.Error):  # of another MLflow's tables; the client explains a damaged database
                return runs_in_sqlite(uri, experiment_id)
        return runs_by_page(client, experiment_id)
    finally:
        if collects:
            gc.enable()


def runs_by_page(client: MlflowClient, experiment_id: str) -> list[Run]:
    runs, token = list[Run](), None
    while token is None or token:
        page = client.search_runs([experiment_id], max_results=PAGE, page_token=token)
        runs += list(page)
        token = page.token or ""
    return runs


def runs_in_sqlite(uri: str, experiment_id: str) -> list[Run]:
    """Return what `runs_by_page` returns, from MLflow's tables: its client takes five times as long for many runs."""
    where = "runs.experiment_id = ? AND runs.lifecycle_stage = 'active'"
    with closing(sqlite3.connect(uri.removeprefix(SQLITE), timeout=WRITER_TIMEOUT)) as database:
        database.execute("BEGIN")  # all queries see one state of the database
        columns = "run_uuid, user_id, status, start_time, end_time, lifecycle_stage, artifact_uri, name"
        found = database.execute(
            f"SELECT {columns} FROM runs WHERE {where} ORDER BY start_time DESC, run_uuid", [experiment_id]
        )
        runs = {run_id: Run(RunInfo(run_id, experiment_id, *rest), RunData()) for run_id, *rest in found}
        data = {run_id: run.data for run_id, run in runs.items()}
        nan_as_null = "iif(is_nan, NULL, value)"
        for table, value in (("params", "value"), ("tags", "value"), ("latest_metrics", nan_as_null)):
            parts = {run_id: getattr(each, table.removeprefix("latest_")) for run_id, each in data.items()}
            query = f"SELECT run_uuid, key, {value} FROM {table} JOIN runs USING (run_uuid) WHERE {where}"
            for run_id, key, entry in database.execute(query, [experiment_id]):
                kept = sys.intern(entry) if isinstance(entry, str) else entry
                parts[run_id][sys.intern(key)] = math.nan if kept is None else kept
        for run in runs.values():
            run.info._set_run_name(run.info.run_name or run.data.tags.get("mlflow.runName"))  # as the client does
        return [*runs.values()]


@lru_cache(maxsize=100_000)
def folder_of(artifact_uri: str) -> str:
    return url2pathname(urlsplit(artifact_uri).path)


class Artifacts:
    """Files of runs: local ones are read in place, others downloaded once into a temporary folder."""

    def __init__(self, client: MlflowClient):
        self.client = client
        self.folder: tempfile.TemporaryDirectory[str] | None = None
        self.names: dict[str, set[str]] = {}  # run → names of its files

    def path(self, run_id: str, artifact_uri: str, name: str) -> Path | None:
        """Return the local path of a file of a run; None if it has no such file. Raise NotFetched if MLflow fails."""
        if artifact_uri.startswith("file://"):
            local = f"{folder_of(artifact_uri)}/{name}"
            return Path(local) if os.path.exists(local) else None
        try:
            return self.download(run_id, name)
        except Exception as error:  # tracking servers and file stores raise anything
            raise NotFetched(str(error) or type(error).__name__) from error

    def file(self, run: Run, name: str) -> Path | None:
        return self.path(run.info.run_id, run.info.artifact_uri or "", name)

    def download(self, run_id: str, name: str) -> Path | None:
        if run_id not in self.names:
            self.names[run_id] = {item.path for item in self.client.list_artifacts(run_id)}
        if name not in self.names[run_id]:
            return None
        if self.folder is None:
            self.folder = tempfile.TemporaryDirectory(prefix="ablate-report-")
        path = Path(self.folder.name) / run_id / name
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            self.client.download_artifacts(run_id, name, str(path.parent))
        return path


def pictures(artifacts: Artifacts, grid: RecordedGrid, chosen: dict[str, Run]) -> dict[str, Picture]:
    """Load the t-SNE picture of each row's first seed, for sections that show it."""
    firsts = {row.cells[0] for section in grid.sections if section.show.tsne for row in section.rows}
    by_cell = {}
    for cell in sorted(firsts & chosen.keys()):
        if (path := artifacts.file(chosen[cell], "picture.npz")) is not None:
            by_cell[cell] = picture(path)
    return by_cell


def picture(path: Path) -> Picture:
    """Load a picture; without points, and with the reason, if they show nothing or cannot be read."""
    try:
        with np.load(path) as arrays:
            reason = str(arrays["reason"]) if "reason" in arrays else ""
            shown = {name: arrays[name] for name in IMAGES if name in arrays}
            stored = Picture(str(arrays["method"]), arrays["x"], arrays["labels"], arrays["ids"], reason, **shown)
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        logger.warning("%s cannot be read: %s", path, error)
        return without_points("picture", f"{path.name} cannot be read")
    if not np.isfinite(stored.x).all():
        return without_points(stored.method, "its coordinates are not finite numbers")
    if len(stored.x) and stored.x.std(0).max() <= ONE_POINT:
        return without_points(stored.method, f"all {len(stored.x)} texts lie on one point")
    return without_points(stored.method, stored.reason) if stored.reason else stored


def without_points(method: str, reason: str) -> Picture:
    return Picture(method, np.zeros((0, 2)), np.zeros(0, int), np.zeros(0, np.uint64), reason)


@dataclass(frozen=True)
class ScoresFile:
    """The parts of scores.json that a report reads."""

    scores: list[Score] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)  # score left out → reason
    class_counts: dict[str, dict[str, int]] = field(default_factory=dict)  # of additional test texts


SCORES_FILE = TypeAdapter(ScoresFile)


def load(experiment: str, uri: str, grid: RecordedGrid | None = None) -> Results:
    """Load an experiment's results for the recorded grid, or for another grid. Raise UserError if MLflow has none."""
    client = MlflowClient(tracking_uri=uri)
    experiment_id = id_of(client, experiment)
    runs, artifacts = all_runs(client, experiment_id), Artifacts(client)
    grid = grid or recorded_grid(artifacts, runs, experiment)
    # the newest run of each, as in recording
    by_cell = {run.data.tags.get("ablate.cell", ""): run for run in reversed(runs)}
    in_grid = {cell for section in grid.sections for row in section.rows for cell in row.cells}
    chosen = {cell: by_cell[cell] for cell in sorted(in_grid) if cell in by_cell}
    files = {cell: scores_file(artifacts, cell, run) for cell, run in chosen.items()}
    metrics = {cell: run.data.metrics for cell, run in chosen.items()}
    scores = pd.DataFrame.from_dict(metrics, orient="index", dtype=float)
    measured = [
        (cell, score.name, score.value, score.higher_is_better, score.count, score.unit, score.standard_error)
        for cell, saved in files.items()
        for score in saved.scores
    ]
    return Results(
        study_of(grid),
        {cell: with_test_counts(cell_run(artifacts, cell, run), files[cell], grid) for cell, run in chosen.items()},
        scores.mask(scores.abs() >= sys.float_info.max).sort_index(axis=1),  # databases store infinity so: no score
        grid_curves(client, grid, chosen),
        pictures(artifacts, grid, chosen),
        {score.name: Kind(score.higher_is_better, score.count) for saved in files.values() for score in saved.scores},
        {cell: {score.name: score.unit for score in saved.scores} for cell, saved in files.items()},
        pd.DataFrame(measured, columns=MEASURED),
        experiment_id,
        uri,
        artifacts.path,
        {cell: saved.notes for cell, saved in files.items() if saved.notes},
        grid.digest({cell: run.data.tags.get("ablate.recorded", "") for cell, run in chosen.items()}),
    )


def id_of(client: MlflowClient, experiment: str) -> str:
    """Return the id of an experiment in MLflow; raise UserError if it has none of this name."""
    held = client.get_experiment_by_name(experiment)
    if held is None:
        raise UserError(f"MLflow holds no experiment {experiment}: run it first, or check MLFLOW_TRACKING_URI")
    if held.lifecycle_stage == "deleted":
        raise UserError(f"the MLflow experiment {experiment} was deleted: restore it in the MLflow UI, or run it anew "
                        "under another name")  # fmt: skip
    return str(held.experiment_id)


def load_grid(experiment: str, uri: str) -> RecordedGrid:
    """Load only the recorded grid of an experiment."""
    client = MlflowClient(tracking_uri=uri)
    return recorded_grid(Artifacts(client), all_runs(client, id_of(client, experiment)), experiment)


def recorded_grid(artifacts: Artifacts, runs: list[Run], experiment: str) -> RecordedGrid:
    recorded = next((run for run in runs if run.data.tags.get("ablate.kind") == "grid"), None)
    if recorded is None:
        raise UserError(f"the MLflow experiment {experiment} has no grid yet; `ablate run` or `ablate sync` records it")
    path = artifacts.file(recorded, "grid.json")
    if path is None:
        raise UserError(f"the MLflow experiment {experiment} has a grid without grid.json; run `ablate sync` with "
        "its experiment file to record it again")  # fmt: skip
    return parse_grid(path.read_bytes(), experiment)


def cell_run(artifacts: Artifacts, cell: str, run: Run) -> CellRun:
    path, tags = artifacts.file(run, "provenance.json"), run.data.tags
    return CellRun(
        run.info.run_name or "",
        tags.get("ablate.status", "running"),
        tags.get("ablate.error", ""),
        None if path is None else parse_provenance(path.read_bytes(), cell),
        run.info.run_id,
        run.info.artifact_uri or "",
        run.data.params,
        tags.get("ablate.evaluation", ""),
    )


def with_test_counts(run: CellRun, saved: ScoresFile, grid: RecordedGrid) -> CellRun:
    """Replace the test class counts in a cell's provenance by those of a separate test set, if there is one."""
    if run.provenance is None or grid.experiment.evaluation.test is None:
        return run
    unchanged = {split: counts for split, counts in run.provenance.class_counts.items() if split != "test"}
    return replace(run, provenance=replace(run.provenance, class_counts=unchanged | saved.class_counts))


def scores_file(artifacts: Artifacts, cell: str, run: Run) -> ScoresFile:
    """Read scores.json of a finished cell; empty for any other. Raise UserError if it is damaged."""
    finished = run.data.tags.get("ablate.status") == "finished"
    path = artifacts.file(run, "scores.json") if finished else None
    if path is None:
        return ScoresFile()
    try:
        return SCORES_FILE.validate_json(path.read_bytes())
    except ValidationError as error:
        raise UserError(f"scores.json of the cell {cell} is damaged in MLflow ({first_problem(error)}); run `ablate "
        "audit EXPERIMENT --mend` to replace it") from None  # fmt: skip


def grid_curves(client: MlflowClient, grid: RecordedGrid, chosen: dict[str, Run]) -> pd.DataFrame:
    """Read the training curves of the cells whose sections show them; the later value of a step measured twice."""
    rows = [row for section in grid.sections if section.show.curves for row in section.rows]
    shown = sorted({cell for row in rows for cell in row.cells} & chosen.keys())
    frame = pd.DataFrame([point for cell in shown for point in points(client, cell, chosen[cell])], columns=POINTS)
    return frame.drop_duplicates(POINTS[:3], keep="last").sort_values(POINTS[:3], ignore_index=True)


def points(client: MlflowClient, cell: str, run: Run) -> Iterator[tuple[Any, ...]]:
    """Yield (cell, key, step, value) in the client's order: by time, step and value."""
    for key in (key for key in run.data.metrics if key in CURVES or key.startswith(TERMS)):
        for metric in client.get_metric_history(run.info.run_id, key):
            yield cell, key, metric.step, metric.value
