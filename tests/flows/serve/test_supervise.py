"""Services: one `ablate up` a home; programs that die are started again, and none is left at the end."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from contrastive.errors import UserError
from flows.serve import lock, ports, supervise, watcher
from tests.flows.conftest import CHECKOUT, ablate
from tests.waiting import alive, gone_within, soon

SLEEPS = "import time; time.sleep(100)"
# as a Prefect worker does with a flow run: a child in a session of its own
SLEEPS_IN_TWO_SESSIONS = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "{SLEEPS}"], start_new_session=True)
print(child.pid, flush=True)
{SLEEPS}
"""
STARTS_IT = """
import os, pathlib, sys, time
from flows.serve.supervise import services
with services(pathlib.Path(sys.argv[1]), dict(os.environ)) as started:
    print(started.start("prefect-worker", "python", "-c", sys.argv[2]).process.pid, flush=True)
    time.sleep(100)
"""


@pytest.fixture
def handlers():
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


def child_of(home: Path) -> psutil.Process:
    """The process in a session of its own, whose number stands in the log."""
    log = home / "logs" / "prefect-worker.log"
    soon(lambda: log.exists() and log.read_text().endswith("\n"))
    return psutil.Process(int(log.read_text().split()[-1]))


def held_by_another(home: Path) -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    command = [sys.executable, "-c", STARTS_IT, str(home), SLEEPS_IN_TWO_SESSIONS]
    process = subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)
    service = psutil.Process(int(process.stdout.readline()))
    return process, [service, child_of(home)]


def test_killing_up_leaves_no_orphan(tmp_path):
    killed, started = held_by_another(tmp_path)
    killed.kill()
    killed.wait()
    assert gone_within(5, started)


def kill_with_its_watcher(killed: subprocess.Popen[str]) -> None:
    (watching,) = (one for one in psutil.Process(killed.pid).children() if "watcher.py" in " ".join(one.cmdline()))
    watching.kill()
    killed.kill()
    killed.wait()


@pytest.mark.full
def test_what_was_killed_together_with_its_watcher_ends_by_down(tmp_path):
    killed, started = held_by_another(tmp_path / "home-2")
    kill_with_its_watcher(killed)
    assert "nothing runs for" in ablate({"ABLATE_HOME": str(tmp_path / "home")}, "down").stdout
    assert len(alive(started)) == 2
    assert ablate({"ABLATE_HOME": str(tmp_path / "home-2")}, "down").stdout == "stopped\n"
    assert gone_within(5, started)


@pytest.mark.full
def test_what_was_killed_together_with_its_watcher_ends_at_the_next_start(tmp_path, handlers):
    killed, started = held_by_another(tmp_path / "home-2")
    kill_with_its_watcher(killed)
    with supervise.services(tmp_path / "home", dict(os.environ)):  # another one, with which its name begins
        assert not gone_within(0.5, started) and len(alive(started)) == 2
    with supervise.services(tmp_path / "home-2", dict(os.environ)):
        assert gone_within(5, started)


def test_a_dead_service_is_cleared_away_and_started_again(tmp_path, handlers, monkeypatch, capsys):
    monkeypatch.setattr(supervise, "FIRST_PAUSE", 0.0)
    with supervise.services(tmp_path, dict(os.environ)) as started:
        service = started.start("prefect-worker", "python", "-c", SLEEPS_IN_TWO_SESSIONS)
        service.pause = 0.1
        first = child_of(tmp_path)
        service.process.kill()
        service.process.wait()
        assert first.is_running()
        started.clear(service)
        assert gone_within(5, [first])
        started.again(service)
        assert service.process.poll() is None and service.pause == 0.2
        assert f"prefect-worker ended with code -9, and is started again; its log is {service.log}" in (
            capsys.readouterr().out
        )
    assert watcher.marked_processes(watcher.service_mark(tmp_path)) == []


def test_one_that_has_run_for_long_is_started_again_at_once(tmp_path, handlers):
    with supervise.services(tmp_path, dict(os.environ)) as started:
        service = started.start("mlflow", "python", "-c", "")
        service.pause, service.began = 30.0, time.monotonic() - supervise.STEADY - 1
        service.process.wait()
        began = time.monotonic()
        started.again(service)
        assert time.monotonic() - began < 10


def test_a_service_that_cannot_start_is_named_with_its_log(tmp_path, handlers):
    with supervise.services(tmp_path, dict(os.environ)) as started:
        service = started.start("mlflow", "python", "-c", "raise SystemExit('no luck')")
        service.process.wait()
        with pytest.raises(UserError, match=r"mlflow ended with code 1 before it answered; its log is .*mlflow\.log"):
            supervise.wait_for_service(f"http://127.0.0.1:{ports.any_free_port()}/", service)
    assert (tmp_path / "logs" / "mlflow.log").read_text() == "no luck\n"


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


PROGRAM = """
import sys
from flows.serve import orphans, temporary_server
temporary_server.before_import()
with orphans.none(), temporary_server.server():
    print("serving", flush=True)
    sys.stdin.read()
"""


@pytest.mark.full
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


@pytest.mark.full
@pytest.mark.parametrize("how, said", [("serve", "caught up True"), ("kill", "gave up False")])
def test_events_reach_a_temporary_server_and_do_not_wait_for_one_that_is_dead(
    how: str, said: str, tmp_path: Path, empty_prefect: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(empty_prefect, tmp_path)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    done = subprocess.run([sys.executable, "-c", EMITS, how], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [said, "left 0"]
