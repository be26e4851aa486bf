"""Servers as processes: one `ablate up` a home, restarts, and nothing that outlives whoever started it."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from contrastive.errors import UserError
from flows.serve import servers, up
from flows.serve.servers import answers, any_free_port, only_one, stop_up
from tests.flows.conftest import CHECKOUT
from tests.waiting import gone_within, soon

SLEEPS = "import time; time.sleep(100)"
# as a Prefect worker does with a flow run: a child in a session of its own
WORKER = f"""
import subprocess, sys, time
flow = "from flows.serve.servers import begin_flow; begin_flow(); print('ready', flush=True); {SLEEPS}"
child = subprocess.Popen([sys.executable, "-c", flow], start_new_session=True)
print(child.pid, flush=True)
time.sleep(100)
"""
UP = """
import os, pathlib, sys, time
from flows.serve.up import Services
with Services(pathlib.Path(sys.argv[1]), os.environ | {"ABLATE_UP": "1"}) as started:
    started.start("prefect-worker", [sys.executable, "-c", sys.argv[2]])
    print(started.processes["prefect-worker"].pid, flush=True)
    time.sleep(100)
"""


@pytest.fixture
def handlers():
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("killed", ["up", "worker"])
def test_killing_up_or_its_worker_leaves_no_orphan(killed: str, tmp_path: Path):
    command = [sys.executable, "-c", UP, str(tmp_path), WORKER]
    parent = subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)
    worker, log = psutil.Process(int(parent.stdout.readline())), tmp_path / "prefect-worker.log"
    soon(lambda: log.exists() and "ready" in log.read_text())
    flow = psutil.Process(int(log.read_text().split()[0]))
    psutil.Process(parent.pid if killed == "up" else worker.pid).kill()
    orphans = [flow] if killed == "worker" else [worker, flow]
    assert gone_within(10, orphans) == (sys.platform == "linux")  # which alone tells a process that its parent died
    for left in (parent, *orphans):
        with suppress(psutil.NoSuchProcess):
            left.kill()
    parent.wait()


def test_a_server_that_cannot_start_is_named_with_its_log(tmp_path: Path, handlers):
    with up.Services(tmp_path, dict(os.environ)) as started:
        program, health = (
            [sys.executable, "-c", "raise SystemExit('no luck')"],
            f"http://127.0.0.1:{any_free_port()}",
        )
        with pytest.raises(UserError, match=r"mlflow ended with code 1 before it was ready; its log is .*mlflow\.log"):
            started.start("mlflow", program, health)
    assert (tmp_path / "mlflow.log").read_text() == "no luck\n"


def test_one_that_does_not_end_when_asked_is_killed(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(servers, "STOP", 0.2)
    stubborn = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); {SLEEPS}"
    started = servers.start_process([sys.executable, "-c", stubborn], tmp_path / "log", os.environ)
    soon(lambda: (tmp_path / "log").read_text() == "on\n")
    servers.stop_process(started)
    assert started.returncode == -signal.SIGKILL


HOLDS = """
import pathlib, sys, time
from flows.serve.servers import only_one
with only_one(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(100)
"""


@pytest.fixture
def holder(tmp_path: Path):
    command = [sys.executable, "-c", HOLDS, str(tmp_path)]
    servers = subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)
    assert servers.stdout.readline() == "held\n"
    yield servers
    servers.kill()
    servers.wait()


def test_a_second_one_is_told_who_runs_and_down_stops_it(holder, tmp_path):
    expected = "is already running for .*; `ablate down` stops it"
    with pytest.raises(UserError, match=expected), only_one(tmp_path):
        pass
    assert stop_up(tmp_path) is True
    assert holder.wait(10) == -signal.SIGTERM
    assert stop_up(tmp_path) is False


def test_what_a_killed_one_has_noted_is_nothing_to_anybody(holder, tmp_path):
    holder.kill()
    holder.wait()
    assert stop_up(tmp_path) is False


def test_one_of_another_machine_is_left_alone(tmp_path):
    with only_one(tmp_path):
        (tmp_path / "locks" / "up.process").write_text(f"{os.getpid()} elsewhere")
        with pytest.raises(UserError, match="runs on elsewhere; stop it there"):
            stop_up(tmp_path)


COMMAND = """
import sys
from flows.serve import temporary_server
temporary_server.before_import()
with temporary_server.server():
    print("serving", flush=True)
    sys.stdin.read()
"""


@pytest.mark.full
def test_a_temporary_server_asks_for_a_password_and_ends_with_its_command(tmp_path: Path):
    user, home = tmp_path / "user", tmp_path / "home"
    user.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    environment = kept | {"HOME": str(user), "ABLATE_HOME": str(home)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", COMMAND], env=environment, text=True, **pipes) as command:
        assert command.stdout.readline() == "serving\n"
        (server,) = (one for one in psutil.Process(command.pid).children() if "server" in one.cmdline())
        (port,) = {at.laddr.port for at in server.net_connections("tcp") if at.status == "LISTEN"}
        assert answers(f"http://127.0.0.1:{port}/api/health")
        assert not answers(f"http://127.0.0.1:{port}/api/collections/views/aggregate-worker-metadata")
        command.kill()
    assert gone_within(60, [server])
    assert (home / ".prefect" / "run" / "prefect.db").exists()
    assert not (user / ".prefect").exists()


@pytest.mark.parametrize("ends", ["pass", "os.kill(os.getpid(), 9)"])
def test_a_server_that_began_beside_the_imports_ends_with_a_command_that_does_not_come_to_use_it(tmp_path: Path, ends):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    code = f"""
import os
from flows.serve import temporary_server
temporary_server.before_import()
print(temporary_server._starting.process.pid, flush=True)
{ends}
"""
    environment = kept | {"HOME": str(tmp_path), "ABLATE_HOME": str(tmp_path / "home")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, text=True, capture_output=True, cwd=tmp_path)
    with suppress(psutil.NoSuchProcess):
        assert gone_within(60, [psutil.Process(int(done.stdout))])


EMITS = """
from prefect.events import emit_event
from flows.serve import temporary_server

with temporary_server.server():
    for number in range(600):
        emit_event(f"test.{number}", {"prefect.resource.id": "test"})
    print(temporary_server.send_last_events())
"""


@pytest.mark.full
def test_events_reach_a_temporary_server(tmp_path: Path, empty_prefect: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(empty_prefect, tmp_path)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    done = subprocess.run([sys.executable, "-c", EMITS], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
