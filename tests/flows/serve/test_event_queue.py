"""What waits for Prefect's server: it is sent before a temporary server goes, and given up with a dead one."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
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


@pytest.mark.full
@pytest.mark.parametrize("how, said", [("serve", "caught up True"), ("kill", "gave up False")])
def test_events_reach_a_temporary_server_and_do_not_wait_for_one_that_is_dead(
    how: str, said: str, tmp_path: Path, empty_prefect: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(empty_prefect, tmp_path)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [said, "left 0"]
