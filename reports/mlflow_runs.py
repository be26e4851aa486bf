"""Read the runs of an experiment, their curves and their files through MLflow's client."""

import gc
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Run

PAGE = 1000  # runs per request
CURVES = ("loss", "gradient_norm")
TERMS = ("gradient_norm.", "excess.")  # prefixes of curves of single loss terms
POINTS = ["run_id", "key", "step", "value"]


class NotFetched(Exception):
    """MLflow failed to deliver a file of a run, possibly while a report is being built."""


@dataclass(frozen=True)
class RunRecord:
    """The parts of an MLflow run that a report reads."""

    run_id: str
    name: str
    artifact_uri: str
    tags: dict[str, str] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Digest of the recorded results."""
        return self.tags.get("ablate.recorded", "")


def read_runs(client: MlflowClient, experiment_id: str) -> list[RunRecord]:
    """Return all runs that are not deleted, newest first."""
    return [
        RunRecord(r.info.run_id, r.info.run_name or "", r.info.artifact_uri or "", r.data.tags, r.data.params,
             r.data.metrics)
        for r in all_runs(client, experiment_id)
    ]  # fmt: skip


def all_runs(client: MlflowClient, experiment_id: str) -> list[Run]:
    """Fetch all runs, newest first. Garbage collection is off meanwhile: it would scan thousands of new objects."""
    runs, token = list[Run](), None
    collects = gc.isenabled()
    gc.disable()
    try:
        while token is None or token:
            page = client.search_runs([experiment_id], max_results=PAGE, page_token=token)
            runs += list(page)
            token = page.token or ""
        return runs
    finally:
        if collects:
            gc.enable()


def read_curves(client: MlflowClient, runs: list[RunRecord]) -> pd.DataFrame:
    """Return the curves of some runs as a table; the later value counts if a step was measured twice."""
    frame = pd.DataFrame(points(client, runs), columns=POINTS)
    return frame.drop_duplicates(POINTS[:3], keep="last").sort_values(POINTS[:3], ignore_index=True)


def points(client: MlflowClient, runs: list[RunRecord]) -> Iterator[tuple[Any, ...]]:
    """Yield (run, key, step, value) in the client's order: by time, step and value."""
    for run in runs:
        for key in (key for key in run.metrics if key in CURVES or key.startswith(TERMS)):
            for metric in client.get_metric_history(run.run_id, key):
                yield run.run_id, key, metric.step, metric.value


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

    def file(self, run: RunRecord, name: str) -> Path | None:
        return self.path(run.run_id, run.artifact_uri, name)

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
