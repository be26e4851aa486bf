import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from contrastive.errors import UserError
from flows.serve import lock

CHECKOUT = Path(__file__).parents[3]
HOLDS = """
import pathlib, sys, time
from flows.serve.lock import only_one
with only_one(pathlib.Path(sys.argv[1])) as note:
    note("Prefect at here")
    print("held", flush=True)
    time.sleep(100)
"""


@pytest.fixture
def holder(tmp_path: Path):
    command = [sys.executable, "-c", HOLDS, str(tmp_path)]
    process = subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def test_a_second_one_is_told_who_runs(holder, tmp_path):
    expected = rf"runs already for .*: process {holder.pid} on .*, Prefect at here; `ablate down` stops it"
    with pytest.raises(UserError, match=expected), lock.only_one(tmp_path):
        pass


def test_down_stops_the_holder_and_then_finds_nobody(holder, tmp_path):
    assert lock.stop_up(tmp_path) is True
    assert holder.wait(10) == -signal.SIGTERM
    assert lock.stop_up(tmp_path) is False


def test_what_a_killed_one_has_noted_is_nothing_to_anybody(holder, tmp_path):
    holder.kill()
    holder.wait()
    noted = json.loads((tmp_path / "locks" / "up").read_text())
    (tmp_path / "locks" / "up").write_text(json.dumps(noted | {"pid": os.getpid()}))  # the number has a new owner
    assert lock.stop_up(tmp_path) is False
    with lock.only_one(tmp_path):
        pass


def test_one_of_another_machine_is_left_alone(tmp_path):
    with lock.only_one(tmp_path):
        path = tmp_path / "locks" / "up"
        path.write_text(json.dumps({"pid": os.getpid(), "host": "elsewhere", "where": "Prefect at there"}))
        with pytest.raises(UserError, match="runs elsewhere: .* on elsewhere, Prefect at there; stop it there"):
            lock.stop_up(tmp_path)
