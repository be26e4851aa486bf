"""Programs that are started again when they die, and of which nothing is left at the end."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from contrastive.errors import UserError
from flows.serve import ports, supervise, watcher
from tests.flows.conftest import ablate, alive, gone_within

CHECKOUT = Path(__file__).parents[3]
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
    log, deadline = home / "logs" / "prefect-worker.log", time.monotonic() + 20
    while not (log.exists() and log.read_text().endswith("\n")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
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
