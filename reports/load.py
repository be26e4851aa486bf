"""Load all results of an experiment from MLflow, the only source of a report."""

import gc
import logging
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import numpy as np
import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Run
from pydantic import TypeAdapter

from contrastive.errors import UserError
from contrastive.evaluation.metrics.types import Score
from contrastive.runs.recorded import RecordedGrid, parse_grid, parse_provenance, parsed
from reports.study import MEASURED, CellRun, Kind, Picture, Results, study_of

logger = logging.getLogger(__name__)

PAGE = 1000  # runs per request
CURVES = ("loss", "gradient_norm")
TERMS = ("gradient_norm.", "excess.")  # prefixes of curves of single loss terms
POINTS = ["cell", "key", "step", "value"]
ClassCounts = dict[str, dict[str, int]]  # split → class → texts
IMAGES = ("near", "near_labels", "images", "image_ids")  # arrays of a picture that only data of images have


class NotFetched(Exception):
    """MLflow failed to deliver a file of a run, possibly while a report is being built."""


def all_runs(client: MlflowClient, experiment_id: str) -> list[Run]:
    """Fetch all runs, newest first."""
    runs, token = list[Run](), None
    collects = gc.isenabled()
    gc.disable()  # fifty objects a run, which all stay: looking for garbage among them takes a third of the time
    try:
        while token is None or token:
            page = client.search_runs([experiment_id], max_results=PAGE, page_token=token)
            runs += list(page)
            token = page.token or ""
    finally:
        if collects:
            gc.enable()
    return runs


class Artifacts:
    """Files of runs: local ones are read in place, others downloaded once into a temporary folder."""

    def __init__(self, client: MlflowClient):
        self.client = client
        self.folder: tempfile.TemporaryDirectory[str] | None = None
        self.names: dict[str, set[str]] = {}  # run → names of its files

    def path(self, run_id: str, artifact_uri: str, name: str) -> Path | None:
        """Return the local path of a file of a run; None if it has no such file. Raise NotFetched if MLflow fails."""
        if artifact_uri.startswith("file://"):
            local = Path(url2pathname(urlsplit(artifact_uri).path), name)
            return local if local.exists() else None
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
    """Load a picture; without points, and with the reason, if it cannot be read."""
    try:
        with np.load(path) as arrays:
            shown = {name: arrays[name] for name in IMAGES if name in arrays}
            return Picture(arrays["x"], arrays["labels"], arrays["ids"], str(arrays["reason"]), **shown)
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        logger.warning("%s cannot be read: %s", path, error)
        no_points = np.zeros((0, 2)), np.zeros(0, int), np.zeros(0, np.uint64)
        return Picture(*no_points, f"{path.name} cannot be read")


@dataclass(frozen=True)
class ScoresFile:
    """The parts of scores.json that a report reads."""

    scores: list[Score] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)  # score left out → reason
    class_counts: ClassCounts = field(default_factory=dict)  # of additional test texts


SCORES_FILE = TypeAdapter(ScoresFile)


def load(experiment: str, uri: str, grid: RecordedGrid | None = None, runs: list[Run] | None = None) -> Results:
    """Load an experiment's results for the recorded grid, or for another grid. Raise UserError if MLflow has none.

    `runs`: all runs of the experiment, if they have been read already.
    """
    client = MlflowClient(tracking_uri=uri)
    experiment_id = id_of(client, experiment)
    runs, artifacts = all_runs(client, experiment_id) if runs is None else runs, Artifacts(client)
    grid = grid or recorded_grid(artifacts, runs, experiment)
    # the newest run of each, as in recording
    by_cell = {run.data.tags.get("ablate.cell", ""): run for run in reversed(runs)}
    in_grid = {cell for section in grid.sections for row in section.rows for cell in row.cells}
    chosen = {cell: by_cell[cell] for cell in sorted(in_grid) if cell in by_cell}
    files = {cell: scores_file(artifacts, cell, run) for cell, run in chosen.items()}
    separate_test = grid.experiment.evaluation.test is not None
    metrics = {cell: run.data.metrics for cell, run in chosen.items()}
    scores = pd.DataFrame.from_dict(metrics, orient="index", dtype=float)
    measured = [
        (cell, score.name, score.value, score.higher_is_better, score.count, score.unit, score.standard_error)
        for cell, saved in files.items()
        for score in saved.scores
    ]
    return Results(
        study_of(grid),
        {
            cell: cell_run(artifacts, cell, run, files[cell].class_counts if separate_test else None)
            for cell, run in chosen.items()
        },
        scores.mask(scores.abs() >= sys.float_info.max).sort_index(axis=1),  # databases store infinity so: no score
        grid_curves(client, grid, chosen),
        pictures(artifacts, grid, chosen),
        {score.name: Kind(score.higher_is_better, score.count) for saved in files.values() for score in saved.scores},
        measured=pd.DataFrame(measured, columns=MEASURED),
        experiment_id=experiment_id,
        uri=uri,
        artifact=artifacts.path,
        notes={cell: saved.notes for cell, saved in files.items() if saved.notes},
        digest=grid.digest({cell: run.data.tags.get("ablate.recorded", "") for cell, run in chosen.items()}),
    )


def id_of(client: MlflowClient, experiment: str) -> str:
    """Return the id of an experiment in MLflow; raise UserError if it has none of this name."""
    held = client.get_experiment_by_name(experiment)
    if held is None:
        raise UserError(f"MLflow holds no experiment {experiment}: run it first, or check MLFLOW_TRACKING_URI")
    if held.lifecycle_stage == "deleted":
        raise UserError(f"the MLflow experiment {experiment} was deleted: restore it in MLflow's UI, or rename yours")
    return str(held.experiment_id)


def recorded_grid(artifacts: Artifacts, runs: list[Run], experiment: str) -> RecordedGrid:
    recorded = next((run for run in runs if run.data.tags.get("ablate.kind") == "grid"), None)
    if recorded is None:
        raise UserError(f"the MLflow experiment {experiment} has no grid yet; `ablate run` or `ablate sync` records it")
    path = artifacts.file(recorded, "grid.json")
    if path is None:
        raise UserError(f"the MLflow experiment {experiment} lacks grid.json; `ablate sync` records it again")
    return parse_grid(path.read_bytes(), experiment)


def cell_run(artifacts: Artifacts, cell: str, run: Run, test_counts: ClassCounts | None) -> CellRun:
    """Describe the run of a cell. `test_counts`: texts of each class of a separate test set, if there is one."""
    path, tags = artifacts.file(run, "provenance.json"), run.data.tags
    provenance = None if path is None else parse_provenance(path.read_bytes(), cell)
    if provenance is not None and test_counts is not None:
        training = {split: counts for split, counts in provenance.class_counts.items() if split != "test"}
        provenance = replace(provenance, class_counts=training | test_counts)
    return CellRun(
        run.info.run_name or "",
        tags.get("ablate.status", "running"),
        tags.get("ablate.error", ""),
        provenance,
        run.info.run_id,
        run.info.artifact_uri or "",
        run.data.params,
        tags.get("ablate.evaluation", ""),
    )


def scores_file(artifacts: Artifacts, cell: str, run: Run) -> ScoresFile:
    """Read scores.json of a finished cell; empty for any other."""
    finished = run.data.tags.get("ablate.status") == "finished"
    path = artifacts.file(run, "scores.json") if finished else None
    return ScoresFile() if path is None else parsed(SCORES_FILE, path.read_bytes(), f"scores.json of the cell {cell}")


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
