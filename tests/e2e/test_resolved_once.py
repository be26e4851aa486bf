"""A command reads its experiment file once, checks it once and builds its grid once: whatever asks, is handed that."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import SMOKE

# The real functions, counted, in the process of the command, whose flow runs there too.
COUNTED = """\
import atexit, collections, json, sys
from contrastive.grid import expand, load
counts = collections.Counter()
def counted(home, name):
    real = getattr(home, name)
    def counting(*given, **named):
        counts[name] += 1
        return real(*given, **named)
    setattr(home, name, counting)
counted(load, "read_document")
counted(load, "wrong_names")
counted(load, "in_cells")
counted(expand, "combinations")
counted(expand.Builder, "resolved")
atexit.register(lambda: print(json.dumps(counts), file=open(sys.argv.pop(), "w")))
from flows.cli import app
app(sys.argv[1:-1])
"""
ONCE = {
    "read_document": 1,
    "wrong_names": 1,
    "in_cells": 1,
    "combinations": 2,
    "resolved": 1,
}  # two sections


@pytest.mark.parametrize("command", [["plan"], pytest.param(["run", "--engine", "inline"], marks=pytest.mark.full)])
def test_a_command_and_its_flow_resolve_their_experiment_once(
    command: list[str], tmp_path: Path, empty_store: Path, request: pytest.FixtureRequest
):
    counted = Path(shutil.copy(empty_store, tmp_path / "mlflow.db")).with_name("counts.json")
    own = {"ABLATE_HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    if command[0] == "run":
        own["PREFECT_API_URL"] = request.getfixturevalue("server")
    asked = [sys.executable, "-c", COUNTED, *command, str(SMOKE), str(counted)]
    done = subprocess.run(asked, env=os.environ | own, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(counted.read_text()) == ONCE
