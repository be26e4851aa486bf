"""Everything a report needs, read from MLflow and from nowhere else."""

import io
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import numpy as np
import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Run

from contrastive.errors import UserError

CURVES = ("loss", "gradient_norm")
PAGE = 1000
COLUMNS = ["cell", "name", "status", "error", "provenance"]


@dataclass(frozen=True)
class Results:
    """`cells`: a row a cell (status, error, provenance). `scores`: cell × score. `curves`: cell, key, step, value."""

    grid: dict[str, Any]
    cells: pd.DataFrame
    scores: pd.DataFrame
    curves: pd.DataFrame
    tsne: dict[str, dict[str, np.ndarray]]
    directions: dict[str, dict[str, Any]]  # score name → higher_is_better and count
    units: dict[str, dict[str, str]]  # cell → score name → unit


def load(experiment: str, uri: str) -> Results:
    client = MlflowClient(tracking_uri=uri)
    found = client.get_experiment_by_name(experiment)
    if found is None:
        raise UserError(f"MLflow holds no experiment {experiment}: run it first, or check MLFLOW_TRACKING_URI")
    if found.lifecycle_stage == "deleted":
        raise UserError(f"the MLflow experiment {experiment} was deleted: restore it in the MLflow UI, or run it anew "
                        "under another name")  # fmt: skip
    runs = all_runs(client, found.experiment_id)
    grids = [run for run in runs if run.data.tags.get("ablate.kind") == "grid"]
    if not grids:
        raise UserError(
            f"the MLflow experiment {experiment} holds no grid yet: `ablate run` or `ablate sync` records it"
        )
    grid = json.loads(artifact(client, grids[0], "grid.json") or "{}")
    wanted = {cell for section in grid["sections"] for row in section["rows"] for cell in row["cells"]}
    by_cell = {run.data.tags.get("ablate.cell", ""): run for run in runs}
    chosen = {cell: by_cell[cell] for cell in sorted(wanted) if cell in by_cell}
    measured = {cell: scores_of(client, run) for cell, run in chosen.items()}
    return Results(
        grid,
        pd.DataFrame([describe(client, cell, run) for cell, run in chosen.items()], columns=COLUMNS).set_index("cell"),
        pd.DataFrame({cell: run.data.metrics for cell, run in chosen.items()}).T,
        curves(client, grid, chosen),
        pictures(client, grid, chosen),
        {name: score for scores in measured.values() for name, score in scores.items()},
        {cell: {name: score.get("unit", "") for name, score in scores.items()} for cell, scores in measured.items()},
    )


def all_runs(client: MlflowClient, experiment_id: str) -> list[Run]:
    runs, token = [], None
    while True:
        page = client.search_runs([experiment_id], max_results=PAGE, page_token=token)
        runs += list(page)
        token = page.token
        if not token:
            return runs


def describe(client: MlflowClient, cell: str, run: Run) -> dict[str, Any]:
    provenance = json.loads(artifact(client, run, "provenance.json") or "{}")
    return {
        "cell": cell,
        "name": run.info.run_name,
        "status": run.data.tags.get("ablate.status", "running"),
        "error": run.data.tags.get("ablate.error", ""),
        "provenance": provenance,
    }


def curves(client: MlflowClient, grid: dict[str, Any], runs: dict[str, Run]) -> pd.DataFrame:
    """Curves of the sections that show them."""
    shown = cells_of(grid, "curves")
    points = [
        {"cell": cell, "key": key, "step": metric.step, "value": metric.value}
        for cell, run in runs.items()
        if cell in shown
        for key in CURVES
        for metric in client.get_metric_history(run.info.run_id, key)
    ]
    frame = pd.DataFrame(points, columns=["cell", "key", "step", "value"])
    return frame.drop_duplicates(["cell", "key", "step"]).sort_values(["cell", "key", "step"], ignore_index=True)


def pictures(client: MlflowClient, grid: dict[str, Any], runs: dict[str, Run]) -> dict[str, dict[str, np.ndarray]]:
    """t-SNE coordinates of each row's first seed, for the sections that show them."""
    firsts = {row["cells"][0] for section in grid["sections"] if section["show"]["tsne"] for row in section["rows"]}
    found = {}
    for cell in sorted(firsts & runs.keys()):
        if (content := artifact(client, runs[cell], "picture.npz")) is not None:
            with np.load(io.BytesIO(content)) as arrays:
                found[cell] = dict(arrays)
    return found


def scores_of(client: MlflowClient, run: Run) -> dict[str, dict[str, Any]]:
    """What is known of each score of a finished cell beside its value."""
    if run.data.tags.get("ablate.status") != "finished":
        return {}
    stored = json.loads(artifact(client, run, "scores.json") or '{"scores": []}')
    return {score["name"]: score for score in stored["scores"]}


def cells_of(grid: dict[str, Any], shown: str) -> set[str]:
    sections = [section for section in grid["sections"] if section["show"][shown]]
    return {cell for section in sections for row in section["rows"] for cell in row["cells"]}


def artifact(client: MlflowClient, run: Run, name: str) -> bytes | None:
    """The content of an artifact; None when the run has none of that name."""
    place = run.info.artifact_uri or ""
    if place.startswith("file://"):  # what is on this disk is read where it lies
        path = Path(url2pathname(urlsplit(place).path)) / name
        return path.read_bytes() if path.exists() else None
    with tempfile.TemporaryDirectory() as folder:
        if name not in {item.path for item in client.list_artifacts(run.info.run_id)}:
            return None
        return Path(client.download_artifacts(run.info.run_id, name, folder)).read_bytes()
