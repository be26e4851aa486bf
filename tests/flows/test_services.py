"""`ablate up` for real: three services on free ports, a home of its own, nothing left behind."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from contrastive.errors import UserError
from flows import ports, services

CHECKOUT = Path(__file__).parents[2]


def a_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [one for one in processes if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


def gone_within(seconds: float, processes: list[psutil.Process]) -> bool:
    deadline = time.monotonic() + seconds
    while alive(processes) and time.monotonic() < deadline:
        time.sleep(0.1)
    return not alive(processes)


@pytest.mark.e2e
def test_up_serves_everything_on_loopback_and_leaves_nothing_behind(tmp_path):
    prefect, mlflow = a_free_port(), a_free_port()
    settings = {
        "ABLATE_HOME": str(tmp_path),
        "ABLATE_PREFECT_PORT": str(prefect),
        "ABLATE_MLFLOW_PORT": str(mlflow),
    }
    command = [sys.executable, "-c", "from flows.cli import main; main()", "up"]
    up = subprocess.Popen(command, cwd=CHECKOUT, env=os.environ | settings, stdout=subprocess.PIPE, text=True)
    try:
        printed = [up.stdout.readline() for _ in range(5)]
        assert printed[-1].startswith("Ctrl-C"), printed
        children = psutil.Process(up.pid).children(recursive=True)
        api = f"http://127.0.0.1:{prefect}/api"
        assert ports.answers(f"http://127.0.0.1:{mlflow}/health") and ports.answers(f"{api}/health")
        deployed = {(one["name"], one["work_pool_name"]) for one in ports.ask(f"{api}/deployments/filter", {})}
        assert deployed == {(name, "ablate") for name in ("quickstart", "imdb-deberta", "chinese-reviews")}
        assert working(api), (tmp_path / "logs" / "prefect-worker.log").read_text()
        assert a_cut_off_run_is_given_up(api)
        listening = {at.laddr.ip for child in children for at in child.net_connections("tcp") if at.status == "LISTEN"}
        assert listening == {"127.0.0.1"}
        up.send_signal(signal.SIGTERM)
        assert up.wait(30) == 0
        assert not alive(children)
        assert not ports.port_in_use(prefect) and not ports.port_in_use(mlflow)
    finally:
        up.kill()
        up.wait()


def a_cut_off_run_is_given_up(api: str) -> bool:
    """A run whose process is gone holds the only slot of its deployment, until the next start of `up`."""

    def slots() -> int:
        return sum(limit["active_slots"] for limit in ports.ask(f"{api}/v2/concurrency_limits/filter", {}))

    deployment = ports.ask(f"{api}/deployments/filter", {})[0]["id"]
    later = {"type": "SCHEDULED", "state_details": {"scheduled_time": "2099-01-01T00:00:00Z"}}  # no worker takes it
    run = ports.ask(f"{api}/deployments/{deployment}/create_flow_run", {"state": later})["id"]
    ports.ask(f"{api}/flow_runs/{run}/set_state", {"state": {"type": "PENDING"}})
    assert slots() == 1
    services.give_up_cut_off_runs(api)
    (found,) = ports.ask(f"{api}/flow_runs/filter", {"flow_runs": {"id": {"any_": [run]}}})
    return found["state_type"] == "CRASHED" and slots() == 0


def working(api: str) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if any(one["status"] == "ONLINE" for one in ports.ask(f"{api}/work_pools/ablate/workers/filter", {})):
            return True
        time.sleep(0.2)
    return False


STARTS_A_SLEEPER = """
import pathlib, sys, time
from flows.services import group
with group(pathlib.Path(sys.argv[1]), {}) as start:
    print(start("sleeper", "python", "-c", "import time; time.sleep(100)").pid, flush=True)
    time.sleep(100)
"""


def test_killing_up_leaves_no_orphan(tmp_path):
    command = [sys.executable, "-c", STARTS_A_SLEEPER, str(tmp_path)]
    killed = subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)
    sleeper = psutil.Process(int(killed.stdout.readline()))
    killed.kill()
    killed.wait()
    assert gone_within(5, [sleeper])


def test_a_service_that_ends_is_named_with_its_log(tmp_path):
    with services.group(tmp_path, dict(os.environ)) as start:
        process = start("mlflow", "python", "-c", "raise SystemExit('no luck')")
        with pytest.raises(UserError, match=r"mlflow ended with code 1; its log is .*mlflow\.log"):
            services.watch({"mlflow": process}, tmp_path)
        with pytest.raises(UserError, match="mlflow ended with code 1 before it answered"):
            services.wait_for(f"http://127.0.0.1:{a_free_port()}/", process, tmp_path / "mlflow.log")
    assert (tmp_path / "mlflow.log").read_text() == "no luck\n"


@pytest.mark.parametrize("service", ["prefect", "mlflow"])
def test_a_port_in_use_is_named_before_anything_starts(service, tmp_path, monkeypatch):
    variables = {name: variable for name, (variable, _) in ports.PORTS.items()}
    for variable in variables.values():
        monkeypatch.setenv(variable, str(a_free_port()))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        monkeypatch.setenv(variables[service], str(number))
        with pytest.raises(UserError, match=rf"port {number} .* is in use .*{variables[service]}={number + 1}"):
            services.up(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", ["http", "0", "65536", "-1", "4200.5"])
def test_a_port_that_is_none(given, monkeypatch):
    monkeypatch.setenv("ABLATE_MLFLOW_PORT", given)
    with pytest.raises(UserError, match="ABLATE_MLFLOW_PORT is .*between 1 and 65535"):
        ports.port("mlflow")
