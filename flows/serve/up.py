"""`ablate up`: run a Prefect server, a worker with all deployments and the MLflow UI until Ctrl-C or `ablate down`.

Both servers ask for the home's password. A process that dies is restarted; all end with this one.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

from contrastive.errors import UserError
from contrastive.runs import store
from flows.serve import access
from flows.serve.servers import (
    CHECKOUT,
    LOOPBACK,
    answers,
    checked_port,
    only_one,
    program,
    require_checkout,
    start_process,
    stop_process,
    url,
    wait_until_it_answers,
)
from flows.terminal import say
from tasks.address import TRAINING, is_database, masked, set_aside_if_damaged, tracking_uri

POOL = "ablate"  # Prefect work pool of the deployments
SETUP = [sys.executable, "-m", "flows.serve.prefect_setup"]
SETTLE = [sys.executable, "-m", "tasks.settle"]  # closes abandoned MLflow runs
PAUSE = 1.0  # seconds before a process that died is restarted


class Services:
    def __init__(self, logs: Path, environment: dict[str, str]):
        self.logs, self.environment = logs, environment
        self.commands, self.processes = dict[str, list[str]](), dict[str, subprocess.Popen[bytes]]()
        logs.mkdir(parents=True, exist_ok=True)

    def start(self, name: str, command: list[str], health: str = "") -> None:
        self.commands[name], self.processes[name] = command, start_process(command, self.log(name), self.environment)
        if health:
            wait_until_it_answers(health, self.processes[name], self.log(name))

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def run(self, name: str, command: list[str]) -> int:
        """Run a program to its end and return its exit code."""
        with open(self.log(name), "ab") as log:
            return subprocess.run(command, cwd=CHECKOUT, env=self.environment, stdout=log, stderr=log).returncode

    def stop(self) -> None:
        for process in reversed(self.processes.values()):
            stop_process(process)


def up(home: Path, host: str = LOOPBACK) -> None:
    """Start the services and keep them running; Ctrl-C, SIGTERM or `ablate down` stops them all."""
    require_checkout("up")
    host = LOOPBACK if host == "localhost" else host  # `localhost` may mean two addresses
    served = is_database(tracking_uri(home))  # otherwise MLflow's server runs elsewhere
    with suppress(KeyboardInterrupt), only_one(home):
        prefect = url(host, port := checked_port("prefect", host))
        mlflow = url(host, checked_port("mlflow", host)) if served else ""
        signal.signal(signal.SIGTERM, _stop)
        signal.signal(signal.SIGINT, _stop)  # also under nohup, which ignores it
        api, environment = f"{prefect}/api", service_environment(home, host, f"{prefect}/api")
        with (
            services(home, environment) as started,
            access.client_settings(home, api, environment["PREFECT_API_AUTH_STRING"]) as clients_find_server,
        ):
            with store.locked(home / "locks" / "mlflow"):  # otherwise a flow could find an incomplete database
                set_aside_if_damaged(home)
                if mlflow:
                    where = ["--host", host, "--port", mlflow.rpartition(":")[2], "--workers", "1"]
                    server = [program("mlflow"), "server", *where, "--app-name", "basic-auth"]
                    started.start("mlflow", server, f"{mlflow}/health")
            server = [program("prefect"), "server", "start", "--host", host, "--port", str(port)]
            started.start("prefect-server", server, f"{api}/health")
            deploy(started)
            started.start("prefect-worker", [program("prefect"), "worker", "start", "--pool", POOL])
            started.run("settle", SETTLE)
            say(welcome(home, prefect, mlflow, clients_find_server))
            keep_going(started, api)


def welcome(home: Path, prefect: str, mlflow: str, clients_find_server: bool) -> str:
    mlflow = f"{mlflow}/#/experiments?{TRAINING}" if mlflow else f"{masked(tracking_uri(home))} (not served from here)"
    own = "MLFLOW_AUTH_ADMIN_PASSWORD" in os.environ or "PREFECT_SERVER_API_AUTH_STRING" in os.environ
    secret = f"as the environment sets it, else as in {access.folder(home)}/password" if own else access.password(home)
    export = (
        "" if clients_find_server else f"PREFECT_API_URL={prefect}/api PREFECT_API_AUTH_STRING={access.USER}:PASSWORD "
    )
    return (
        f"Prefect   {prefect}\nMLflow    {mlflow}\n"
        f"sign in   user {access.USER}, password {secret}   (Prefect takes both as USER:PASSWORD)\n"
        f"to run    {export}prefect deployment run 'ablation-grid/quickstart'\n"
        f"logs      {home / 'logs'}\n"
        "Ctrl-C stops everything, and so does `ablate down` elsewhere"
    )


def service_environment(home: Path, host: str, api: str) -> dict[str, str]:
    """Return the environment of all services; databases and passwords are passed on here, never on a command line."""
    return access.server_environment(home, host, dict(os.environ)) | {
        "ABLATE_HOME": str(home),
        "ABLATE_UP": "1",
        "PWD": str(CHECKOUT),  # prefect.yaml reads it
        "PREFECT_API_URL": api,
        "PREFECT_HOME": str(home / ".prefect"),
        "PREFECT_WORKER_QUERY_SECONDS": "2",
        # holders of concurrency slots survive a restart of the server, and can release them
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # more processes, for features not used here
        "MLFLOW_BACKEND_STORE_URI": tracking_uri(home),
        "MLFLOW_DEFAULT_ARTIFACT_ROOT": str(home / "mlartifacts"),
    }


@contextmanager
def services(home: Path, environment: dict[str, str]) -> Iterator[Services]:
    """Stop everything that is started inside at the end."""
    started = Services(home / "logs", environment)
    try:
        yield started
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not leave some running
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        started.stop()


def deploy(started: Services) -> None:
    """Create the work pool and the automation, and the deployments of prefect.yaml."""
    for command in (SETUP, [program("prefect"), "--no-prompt", "deploy", "--all"]):
        if started.run("deploy", command) != 0:
            raise UserError(f"`{' '.join(command)}` failed in {CHECKOUT}; its log is {started.log('deploy')}")


def keep_going(started: Services, api: str) -> NoReturn:
    """Restart services that die. Flow runs of a dead worker are marked as crashed before it restarts."""
    while True:
        for name, process in list(started.processes.items()):
            if (code := process.poll()) is None:
                continue
            is_worker = name == "prefect-worker"
            if is_worker and not answers(f"{api}/health"):
                continue  # the server died too, and is restarted first
            stop_process(process)  # its remaining children may keep the port
            say(f"{name} ended with code {code} and is restarted; its log is {started.log(name)}")
            time.sleep(PAUSE)
            if is_worker:
                started.run("deploy", SETUP)
            started.start(name, started.commands[name])
            if is_worker:
                started.run("settle", SETTLE)
        time.sleep(0.5)


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
