"""The runs of an experiment: from a server through MLflow's client, from a database by plain SQL.

For 10 000 runs the client makes an object of each row of four tables, which takes longer than all else that a report
does; selecting the columns alone takes a tenth. `benchmarks/report.py` measures both, a test holds them equal.
"""

import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow.store.db.db_types import DATABASE_ENGINES
from sqlalchemy import Connection, Select, create_engine, or_, select
from sqlalchemy.pool import NullPool

PAGE = 1000
AT_ONCE = 500  # names in a condition of SQL
CURVES = ("loss", "gradient_norm")
TERMS = ("gradient_norm.", "excess.")  # what the curves of single terms begin with
POINTS = ["run_id", "key", "step", "value"]


class NotFetched(Exception):
    """MLflow did not give a file of a run, also late, while the report is being built."""


@dataclass(frozen=True)
class Held:
    """A run as far as a report reads it."""

    run_id: str
    name: str
    place: str  # of its artifacts
    tags: dict[str, str] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)


def is_database(uri: str) -> bool:
    return urlsplit(uri).scheme.partition("+")[0] in DATABASE_ENGINES


def read(client: MlflowClient, uri: str, experiment_id: str) -> list[Held]:
    """All runs that were not deleted, the newest first."""
    return from_database(uri, experiment_id) if is_database(uri) else from_client(client, experiment_id)


def from_client(client: MlflowClient, experiment_id: str) -> list[Held]:
    return [
        Held(r.info.run_id, r.info.run_name or "", r.info.artifact_uri or "", r.data.tags, r.data.params,
             r.data.metrics)
        for r in all_runs(client, experiment_id)
    ]  # fmt: skip


def all_runs(client: MlflowClient, experiment_id: str) -> list[Run]:
    runs, token = [], None
    while True:
        page = client.search_runs([experiment_id], max_results=PAGE, page_token=token)
        runs += list(page)
        token = page.token
        if not token:
            return runs


def from_database(uri: str, experiment_id: str) -> list[Held]:
    from mlflow.store.tracking.dbmodels.models import SqlLatestMetric, SqlParam, SqlRun, SqlTag

    runs, same = SqlRun.__table__.c, str_of_equal_texts()
    ours = (runs.experiment_id == int(experiment_id)) & (runs.lifecycle_stage == "active")
    newest = (runs.start_time.desc(), runs.run_uuid)
    with connected(uri) as connection:
        rows = connection.execute(select(runs.run_uuid, runs.name, runs.artifact_uri).where(ours).order_by(*newest))
        found = {run: Held(run, name or "", place or "") for run, name, place in rows}

        def of(table: Any, *columns: str) -> Iterator[Any]:
            chosen = [table.c[name] for name in ("run_uuid", "key", *columns)]
            rows = connection.execute(select(*chosen).where(table.c.run_uuid == runs.run_uuid, ours))
            return (row for row in rows if row[0] in found)  # a run may begin meanwhile

        for run, key, value in of(SqlTag.__table__, "value"):
            found[run].tags[same(key)] = same(value)
        for run, key, value in of(SqlParam.__table__, "value"):
            found[run].params[same(key)] = same(value)
        for run, key, value, is_nan in of(SqlLatestMetric.__table__, "value", "is_nan"):
            found[run].metrics[same(key)] = float("nan") if is_nan else value
    return list(found.values())


def str_of_equal_texts() -> Any:
    """Gives one object for equal texts, which a table repeats for every run."""
    seen: dict[str, str] = {}
    return lambda text: seen.setdefault(text, text)


def connected(uri: str) -> Any:
    """A connection that is closed at the end, with the engine's others."""
    connection: Connection = create_engine(uri, poolclass=NullPool).connect()
    return connection


def curves(client: MlflowClient, uri: str, runs: list[Held]) -> pd.DataFrame:
    """The points of the curves of these runs; of a step that was measured twice, the later."""
    points = points_of_database(uri, runs) if is_database(uri) else points_of_client(client, runs)
    frame = pd.DataFrame(points, columns=POINTS)
    return frame.drop_duplicates(POINTS[:3], keep="last").sort_values(POINTS[:3], ignore_index=True)


def points_of_client(client: MlflowClient, runs: list[Held]) -> Iterator[tuple[Any, ...]]:
    """As the client has them: by time, step and value."""
    for run in runs:
        for key in (key for key in run.metrics if key in CURVES or key.startswith(TERMS)):
            for metric in client.get_metric_history(run.run_id, key):
                yield run.run_id, key, metric.step, metric.value


def points_of_database(uri: str, runs: list[Held]) -> Iterator[tuple[Any, ...]]:
    from mlflow.store.tracking.dbmodels.models import SqlMetric

    points = SqlMetric.__table__.c
    shown = or_(points.key.in_(CURVES), *(points.key.startswith(term, autoescape=True) for term in TERMS))
    order = (points.timestamp, points.step, points.value)
    with connected(uri) as connection:
        for names in parts([run.run_id for run in runs]):
            chosen: Select[Any] = select(points.run_uuid, points.key, points.step, points.value, points.is_nan)
            for run, key, step, value, is_nan in connection.execute(
                chosen.where(points.run_uuid.in_(names), shown).order_by(*order)
            ):
                yield run, key, step, float("nan") if is_nan else value


def parts(names: list[str]) -> Iterable[list[str]]:
    return (names[begin : begin + AT_ONCE] for begin in range(0, len(names), AT_ONCE))


@lru_cache(maxsize=100_000)
def folder_of(place: str) -> str:
    return url2pathname(urlsplit(place).path)


class Artifacts:
    """Files of runs: what is on this disk is read where it lies, the rest is fetched once and kept while we live."""

    def __init__(self, client: MlflowClient):
        self.client = client
        self.folder: tempfile.TemporaryDirectory[str] | None = None
        self.names: dict[str, set[str]] = {}  # run → the files that it has

    def path(self, run_id: str, place: str, name: str) -> Path | None:
        """Where a file of a run lies; None when the run has none of that name."""
        if place.startswith("file://"):
            here = f"{folder_of(place)}/{name}"
            return Path(here) if os.path.exists(here) else None
        try:
            return self.fetched(run_id, name)
        except Exception as error:  # whatever a tracking server or a store of files may raise
            raise NotFetched(str(error) or type(error).__name__) from error

    def fetched(self, run_id: str, name: str) -> Path | None:
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
