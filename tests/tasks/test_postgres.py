"""MLflow on a real PostgreSQL, written to directly by several processes of two machines, each with locks of its own."""

import multiprocessing
import os
from pathlib import Path

import pytest

from reports.load import load
from tasks import record, sync, tracking
from tests.postgres import databases
from tests.recorded import cell_folder, grid

pytestmark = pytest.mark.full
WRITERS = 8


@pytest.fixture(scope="module")
def database(postgres: str) -> str:
    return databases(postgres, "tracking")[0]


@pytest.fixture
def uri(database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", database)
    return database


def record_from_process(uri: str, home: Path, number: int, barrier: object) -> None:
    os.environ |= {"ABLATE_HOME": str(home), "MLFLOW_TRACKING_URI": uri}
    folder = cell_folder(f"c{number}s0", "ce", 0, 0.5 + number / 100, steps=100)
    barrier.wait(120)
    client = tracking.open_tracker(home)
    record.record_cell(client, "small", folder, ["Recipes"])
    record.record_grid(client, "small", grid(labels=tuple(f"row {i}" for i in range(WRITERS))))


def test_eight_writers_at_once_make_a_run_a_cell(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tracking.open_tracker(tmp_path)  # makes the tables: two machines that do it at once are in each other's way
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tasks.tracking", "tests.recorded"])  # instead of eight imports of MLflow
    barrier = context.Barrier(WRITERS)
    processes = [
        context.Process(target=record_from_process, args=(uri, tmp_path / f"home-{number % 2}", number, barrier))
        for number in range(WRITERS)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(240)
    assert [process.exitcode for process in processes] == [0] * WRITERS
    held = load("small", uri)
    assert list(held.cells) == [f"c{i}s0" for i in range(WRITERS)]
    assert list(held.scores["test.accuracy"]) == [0.5 + i / 100 for i in range(WRITERS)]
    client = tracking.open_tracker(tmp_path)
    assert len(record.grid_runs(client, "small")) <= 2  # each machine may have made one at the same moment
    record.record_grid(client, "small", grid(labels=tuple(f"row {i}" for i in range(WRITERS))))
    runs = client.search_runs([tracking.experiment_id(client, "small")])
    assert sorted(run.info.status for run in runs) == ["FINISHED"] * (WRITERS + 1)  # a run a cell, and the grid
    for run in runs:
        if cell := run.data.tags.get("ablate.cell"):
            monkeypatch.setenv("ABLATE_HOME", str(tmp_path / f"home-{int(cell[1]) % 2}"))
            assert not list(sync.differences_of_run(client, run, tracking.store.run_folder(cell)))


def test_of_two_grids_that_two_machines_made_at_once_one_stays(uri: str, tmp_path: Path):
    client = tracking.open_tracker(tmp_path)
    made = [
        client.create_run(
            tracking.experiment_id(client, "twice"), start_time=time, tags={"ablate.kind": "grid"}
        ).info.run_id
        for time in (1, 3, 2)
    ]
    client.set_terminated(made[0])
    record.record_grid(client, "twice", grid())
    left = [(run.info.run_id, run.info.status) for run in record.grid_runs(client, "twice")]
    assert left == [(made[1], "FINISHED"), (made[2], "RUNNING")]  # the last is still being written
    client.set_terminated(made[2])
    record.record_grid(client, "twice", grid())
    assert [run.info.run_id for run in record.grid_runs(client, "twice")] == [made[1]]
