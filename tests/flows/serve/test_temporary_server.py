"""A Prefect server for one command: it ends with the command however that ends, and gets the events that wait."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.waiting import gone_within

pytestmark = pytest.mark.full

PROGRAM = """
import sys
from flows.serve import orphans, temporary_server
temporary_server.before_import()
with orphans.none(), temporary_server.server():
    print("serving", flush=True)
    sys.stdin.read()
"""


def test_it_ends_with_its_command_also_when_the_watcher_is_killed_too(tmp_path: Path):
    user, home = tmp_path / "user", tmp_path / "home"
    user.mkdir()
    kept = {name: value for name, value in os.environ.items() if name not in ("PREFECT_API_URL", "PREFECT_HOME")}
    environment = kept | {"HOME": str(user), "ABLATE_HOME": str(home)}
    command = [sys.executable, "-c", PROGRAM]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, text=True, **pipes) as process:
        assert process.stdout.readline() == "serving\n"
        started = psutil.Process(process.pid).children()
        assert any("flows.serve.prefect_server" in one.cmdline() for one in started)
        assert any("watcher.py" in " ".join(one.cmdline()) for one in started)
        for one in started:
            if "flows.serve.prefect_server" not in one.cmdline():
                one.kill()
        process.kill()
    assert gone_within(60, started)
    assert (home / ".prefect" / "run" / "prefect.db").exists()
    assert not (user / ".prefect").exists()


EMITS = """
import sys
import psutil
from prefect.events import emit_event
from flows.serve import event_queue, temporary_server

with temporary_server.server():
    worker = event_queue.EventsWorker.instance()
    emit_event("test.first", {"prefect.resource.id": "test"})
    event_queue.PATIENCE = 60  # a busy machine may take long to connect
    assert event_queue.catch_up(0)
    if "kill" in sys.argv:
        event_queue.PATIENCE = 2
        (server,) = (child for child in psutil.Process().children() if "flows.serve.prefect_server" in child.cmdline())
        server.kill()
        psutil.wait_procs([server])  # until it is gone, the system takes for it what nobody will read
    for number in range(600):
        emit_event(f"test.{number}", {"prefect.resource.id": "test"})
    print("caught up" if event_queue.catch_up(100) else "gave up", worker._queue.qsize() <= 100)
print("left", worker._queue.qsize())
"""


@pytest.mark.parametrize("how, said", [("serve", "caught up True"), ("kill", "gave up False")])
def test_events_reach_a_temporary_server_and_do_not_wait_for_one_that_is_dead(
    how: str, said: str, tmp_path: Path, empty_prefect: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(empty_prefect, tmp_path)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    done = subprocess.run([sys.executable, "-c", EMITS, how], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [said, "left 0"]
