"""`ablate up`: Prefect server, a worker with all deployments, and the MLflow UI, until Ctrl-C or `ablate down`.

They listen on loopback unless another address is asked for, which demands passwords. One that dies is started again.
Everything is stopped at the end; a watcher does it when this process is killed, so nothing is orphaned.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import NoReturn

from contrastive.errors import UserError
from contrastive.runs import store
from flows.serve import lock, passwords
from flows.serve.ports import LOOPBACK, answers, both_loopbacks, free_port, url
from flows.serve.prefect_server import command as prefect_server
from flows.serve.supervise import CHECKOUT, POOL, Services, program, services, wait_for_service
from flows.terminal import say
from tasks.database import set_aside_if_damaged
from tasks.secrets import masked
from tasks.tracking_address import TRAINING, is_database, tracking_uri

EXPERIMENTS = f"/#/experiments?{TRAINING}"
SETUP = [sys.executable, "-m", "flows.serve.prefect_setup"]
SETTLE = [sys.executable, "-m", "tasks.settle"]  # ends runs of MLflow that say RUNNING although nobody works on them


def up(home: Path, host: str = LOOPBACK) -> None:
    """Start the services and see that they go on; Ctrl-C, SIGTERM or `ablate down` stops them all."""
    host = LOOPBACK if host == "localhost" else host  # which may mean two addresses
    uri = tracking_uri(home)
    served = is_database(uri)  # any other address is that of a server, which somebody else runs
    passwords.demand_passwords(host, os.environ, mlflow=served)
    with contextlib.suppress(KeyboardInterrupt), lock.only_one(home) as note:
        if password := os.environ.get(passwords.PREFECT):
            os.environ["PREFECT_API_AUTH_STRING"] = password  # for the worker, its flows, and what is asked from here
        prefect = url(host, port := free_port("prefect", host))
        tracking = url(host, free_port("mlflow", host)) if served else None
        ports = [int(address.rpartition(":")[2]) for address in (prefect, tracking) if address]
        signal.signal(signal.SIGTERM, _stop)
        signal.signal(signal.SIGINT, _stop)  # also under nohup, which leaves it ignored
        with both_loopbacks(host, ports), services(home, service_environment(home, host, f"{prefect}/api")) as started:
            server = started.start("prefect-server", *prefect_server(host, port))
            with store.locked(home / "locks" / "mlflow"):  # else a flow would find a database that is half made
                set_aside_if_damaged(home)
                if tracking:
                    ui = started.start("mlflow", *mlflow_server(host, tracking.rpartition(":")[2]))
                    wait_for_service(f"{tracking}/health", ui)
            wait_for_service(f"{prefect}/api/health", server)
            deploy(started.environment, home / "logs" / "deploy.log")
            started.start("prefect-worker", "prefect", "worker", "start", "--pool", POOL)
            run_logged(SETTLE, started.environment, home / "logs" / "settle.log")
            note(f"Prefect at {prefect}")
            shown = (
                f"{tracking}{EXPERIMENTS}" if tracking else f"{masked(uri)} (MLFLOW_TRACKING_URI; not served from here)"
            )
            say(
                f"Prefect  {prefect}\nMLflow   {shown}\nlogs     {home / 'logs'}\n"
                f"to run   PREFECT_API_URL={prefect}/api prefect deployment run 'ablation-grid/quickstart'\n"
                "Ctrl-C stops everything, and so does `ablate down` elsewhere"
            )
            keep_going(started, f"{prefect}/api")


def service_environment(home: Path, host: str, api: str) -> dict[str, str]:
    """What every service is told; databases and passwords that are set pass through, and stand in no command line."""
    variables = os.environ | {
        "ABLATE_HOME": str(home),
        "PWD": str(CHECKOUT),  # prefect.yaml reads it
        "PREFECT_API_URL": api,
        "PREFECT_HOME": str(home / ".prefect"),
        "PREFECT_WORKER_QUERY_SECONDS": "2",
        # whoever holds a concurrency slot is remembered when the server restarts, and so can give it back
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # more processes, for features that nothing here uses
        "MLFLOW_BACKEND_STORE_URI": tracking_uri(home),
        "MLFLOW_DEFAULT_ARTIFACT_ROOT": str(home / "mlartifacts"),
    }
    if not passwords.loopback(host) and "MLFLOW_AUTH_CONFIG_PATH" not in os.environ:
        variables["MLFLOW_AUTH_CONFIG_PATH"] = str(passwords.mlflow_users(home))
    if not passwords.loopback(host):  # MLflow lets in who asks for a name that it knows, and of itself knows few
        variables.setdefault(
            "MLFLOW_SERVER_ALLOWED_HOSTS", f"{host},{host}:*,localhost,localhost:*,127.0.0.1,127.0.0.1:*"
        )
    return variables


def mlflow_server(host: str, port: str) -> list[str]:
    # on loopback no headers of a proxy: whoever asks could say that he is another one
    own_user = ["--app-name", "own-user", "--uvicorn-opts", "--no-proxy-headers"]
    guarded = own_user if passwords.loopback(host) else ["--app-name", "basic-auth"]
    return ["mlflow", "server", "--host", host, "--port", port, "--workers", "1", *guarded]


def deploy(environment: dict[str, str], log: Path) -> None:
    """Make the work pool and what else Prefect's server is told, and a deployment of everything in prefect.yaml."""
    for command in (SETUP, [program("prefect"), "--no-prompt", "deploy", "--all"]):
        if run_logged(command, environment, log) != 0:
            raise UserError(f"`{' '.join(command)}` failed in {CHECKOUT}; its log is {log}")


def run_logged(command: list[str], environment: dict[str, str], log: Path) -> int:
    with open(log, "ab") as output:
        return subprocess.run(command, cwd=CHECKOUT, env=environment, stdout=output, stderr=output).returncode


def keep_going(started: Services, api: str) -> NoReturn:
    """Start again what dies. The flow runs of a dead worker end with it, and are Crashed before it is back."""
    while True:
        for service in started.all:
            if service.process.poll() is None:
                continue
            started.clear(service)
            if service.name == "prefect-worker":
                if not answers(f"{api}/health"):
                    continue  # the server died, too: it comes first
                run_logged(SETUP, started.environment, service.log.with_name("deploy.log"))
            started.again(service)
            if service.name == "prefect-worker":
                run_logged(SETTLE, started.environment, service.log.with_name("settle.log"))
        time.sleep(0.5)


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
