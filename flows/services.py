"""`ablate up`: Prefect server, a worker with all deployments, and the MLflow UI on loopback, until Ctrl-C.

Each is a process group of its own, stopped in order at the end. A watcher stops the groups when this process is killed
without a chance to do so, so nothing is orphaned.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from contrastive.errors import UserError
from flows.ports import answers, ask, free_port

Start = Callable[..., subprocess.Popen[bytes]]
CHECKOUT = Path(__file__).parent.parent
POOL = "ablate"
PATIENCE = 120.0  # seconds until a service must answer; the first start makes a database
GRACE = 20.0  # seconds that a service has to stop by itself

# Reads group ids to the end of its input, which comes when `ablate up` is gone, and stops what is left of the groups.
WATCHER = """
import contextlib, os, signal, sys, time
groups = [int(line) for line in sys.stdin]
for wanted in (signal.SIGTERM, signal.SIGKILL):
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, wanted)
    if wanted == signal.SIGTERM and groups:
        time.sleep(8)
"""


def up(home: Path) -> None:
    """Start the services and wait; Ctrl-C or SIGTERM stops them all."""
    prefect, mlflow = free_port("prefect"), free_port("mlflow")
    api, ui, logs = f"http://127.0.0.1:{prefect}", f"http://127.0.0.1:{mlflow}", home / "logs"
    environment = os.environ | {
        "ABLATE_HOME": str(home),
        "PWD": str(CHECKOUT),  # prefect.yaml reads it
        "PREFECT_API_URL": f"{api}/api",
        "PREFECT_HOME": str(home / ".prefect"),
        "PREFECT_WORKER_QUERY_SECONDS": "2",
        # whoever holds a concurrency slot is remembered when the server restarts, and so can give it back
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # more processes, for features that nothing here uses
    }
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)  # also under nohup, which leaves it ignored
    with contextlib.suppress(KeyboardInterrupt), group(logs, environment) as start:
        server = start("prefect-server", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(prefect))
        tracking = start("mlflow", *mlflow_ui(home, mlflow))
        wait_for(f"{api}/api/health", server, logs / "prefect-server.log")
        give_up_cut_off_runs(f"{api}/api")
        deploy(environment, logs / "deploy.log")
        worker = start("prefect-worker", "prefect", "worker", "start", "--pool", POOL)
        wait_for(f"{ui}/health", tracking, logs / "mlflow.log")
        print(
            f"Prefect  {api}\nMLflow   {ui}\nlogs     {logs}\n"
            f"to run   PREFECT_API_URL={api}/api prefect deployment run 'ablation-grid/quickstart'\n"
            "Ctrl-C stops everything",
            flush=True,
        )
        watch({"prefect-server": server, "mlflow": tracking, "prefect-worker": worker}, logs)


def mlflow_ui(home: Path, number: int) -> list[str]:
    home.mkdir(parents=True, exist_ok=True)
    store = ["--backend-store-uri", f"sqlite:///{home / 'mlflow.db'}"]
    artifacts = ["--default-artifact-root", str(home / "mlartifacts")]
    return ["mlflow", "server", "--host", "127.0.0.1", "--port", str(number), "--workers", "1", *store, *artifacts]


@contextlib.contextmanager
def group(logs: Path, environment: dict[str, str]) -> Iterator[Start]:
    """Gives `start(log, *command)`; whatever it started is stopped at the end, the last first."""
    logs.mkdir(parents=True, exist_ok=True)
    end_with_us = [sys.executable, "-c", WATCHER]
    watcher = subprocess.Popen(end_with_us, stdin=subprocess.PIPE, text=True, start_new_session=True)
    started: list[subprocess.Popen[bytes]] = []

    def start(log: str, *command: str) -> subprocess.Popen[bytes]:
        with open(logs / f"{log}.log", "ab") as output:
            process = subprocess.Popen(
                [program(command[0]), *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=CHECKOUT,
                env=environment,
                start_new_session=True,
                preexec_fn=_default_signals,
            )
        started.append(process)
        print(process.pid, file=watcher.stdin, flush=True)
        return process

    try:
        yield start
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # an impatient second Ctrl-C must not leave half of them behind
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for process in reversed(started):
            stop(process)
        watcher.kill()  # nothing is left for it to do
        watcher.wait()


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ask the process and all of its group to end, and end what has not after a while."""
    _signal(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE)
    _signal(process.pid, signal.SIGKILL)
    process.wait()


def give_up_cut_off_runs(api: str) -> None:
    """Flow runs that the last `ablate up` took down say Running for ever, and hold the slot of their deployment."""
    unfinished = {"state": {"type": {"any_": ["PENDING", "RUNNING", "CANCELLING"]}}}
    state = {"type": "CRASHED", "message": "`ablate up` was stopped; run it again, finished cells are reused"}
    for run in ask(f"{api}/flow_runs/filter", {"flow_runs": unfinished, "work_pools": {"name": {"any_": [POOL]}}}):
        ask(f"{api}/flow_runs/{run['id']}/set_state", {"state": state})


def deploy(environment: dict[str, str], log: Path) -> None:
    """Make the work pool, and a deployment of everything in prefect.yaml."""
    for arguments in (["work-pool", "create", POOL, "--type", "process", "--overwrite"], ["deploy", "--all"]):
        command = [program("prefect"), "--no-prompt", *arguments]
        with open(log, "ab") as output:
            done = subprocess.run(command, cwd=CHECKOUT, env=environment, stdout=output, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            raise UserError(f"`prefect {' '.join(arguments)}` failed in {CHECKOUT}; its log is {log}")


def program(name: str) -> str:
    return str(Path(sys.executable).parent / name)  # of this environment, active or not


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not answers(url):
        if process.poll() is not None:
            raise UserError(f"{log.stem} ended with code {process.returncode} before it answered; its log is {log}")
        if time.monotonic() > deadline:
            raise UserError(f"{log.stem} did not answer at {url} for {PATIENCE:.0f} s; its log is {log}")
        time.sleep(0.2)


def watch(processes: dict[str, subprocess.Popen[bytes]], logs: Path) -> None:
    while True:
        for name, process in processes.items():
            if process.poll() is not None:
                raise UserError(f"{name} ended with code {process.returncode}; its log is {logs / name}.log")
        time.sleep(0.5)


def _signal(group_id: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS refuses for a group of zombies
        os.killpg(group_id, number)


def _default_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
