"""`ablate up`: run a Prefect server, a worker with all deployments and the MLflow UI until Ctrl-C or `ablate down`.

Both servers ask for the home's password, which keeps out other users of the machine, pages of other sites and DNS
rebinding. A process that dies is restarted; all end with this one.
"""

import os
import secrets
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn, Self

from contrastive.errors import UserError
from contrastive.runs import store
from flows.serve import servers
from flows.serve.deployments import POOL, SHIPPED, experiment_files, write_deployments
from flows.serve.servers import CHECKOUT, LOOPBACK, program
from flows.terminal import say
from tasks.address import TRAINING, is_database, masked, refuse_damaged, tracking_uri

USER = "ablate"
WORKER = "prefect-worker"
SETUP = [sys.executable, "-m", "flows.serve.prefect_setup"]
AUTH_INI = """[mlflow]
default_permission = READ
database_uri = sqlite:///{users}
admin_username = {user}
auth_cache_ttl_seconds = 60
"""  # safe with one server process; without the cache each request takes half a second


class Services:
    """Programs with a log each; leaving the context stops them all."""

    def __init__(self, logs: Path, environment: dict[str, str]):
        self.logs, self.environment = logs, environment
        self.commands, self.processes = dict[str, list[str]](), dict[str, subprocess.Popen[bytes]]()
        logs.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C must not leave some running
        for process in reversed(self.processes.values()):
            servers.stop_process(process)

    def start(self, name: str, command: list[str], health: str = "") -> None:
        self.commands[name] = command
        self.processes[name] = servers.start_process(command, self.log(name), self.environment)
        if health:
            servers.wait_until_it_answers(health, self.processes[name], self.log(name))

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def run(self, name: str, command: list[str]) -> int:
        """Run a program to its end and return its exit code."""
        with open(self.log(name), "ab") as log:
            return subprocess.run(command, cwd=CHECKOUT, env=self.environment, stdout=log, stderr=log).returncode


def up(home: Path) -> None:
    """Start the services and keep them running; Ctrl-C, SIGTERM or `ablate down` stops them all."""
    with suppress(KeyboardInterrupt), servers.only_one(home):
        prefect, mlflow = servers.url(servers.free_port("prefect")), ""
        if is_database(tracking_uri(home)):  # otherwise MLflow's server runs elsewhere
            mlflow = servers.url(servers.free_port("mlflow"))
        for number in (signal.SIGTERM, signal.SIGINT):  # SIGINT also under nohup, which ignores it
            signal.signal(number, _stop)
        with Services(home / "logs", service_environment(home, f"{prefect}/api")) as started:
            if mlflow:
                server = [*program("mlflow server --workers 1 --app-name basic-auth"), *servers.listening(mlflow)]
                with store.locked(home / "locks" / "mlflow"):  # otherwise a flow could find an incomplete database
                    refuse_damaged(home)
                    started.start("mlflow", server, f"{mlflow}/health")
            server = [*program("prefect server start"), *servers.listening(prefect)]
            started.start("prefect-server", server, f"{prefect}/api/health")
            deployed = deploy(started, home)
            started.start(WORKER, program(f"prefect worker start --pool {POOL}"))
            say(welcome(home, prefect, mlflow, deployed))
            keep_going(started, f"{prefect}/api/health")


def welcome(home: Path, prefect: str, mlflow: str, deployed: str) -> str:
    mlflow = f"{mlflow}/#/experiments?{TRAINING}" if mlflow else f"{masked(tracking_uri(home))} (not served from here)"
    is_set = "MLFLOW_AUTH_ADMIN_PASSWORD" in os.environ or "PREFECT_SERVER_API_AUTH_STRING" in os.environ
    secret = f"as the environment sets it, else as in {home}/.access/password" if is_set else password(home)
    to_run = (
        f"export PREFECT_API_URL={prefect}/api PREFECT_API_AUTH_STRING={USER}:PASSWORD; "
        f"prefect deployment run 'ablation-grid/{deployed}'"
        if deployed
        else f"nothing: {Path.cwd()} has no experiment file (*.yaml with `sections`); write one and start this again"
    )
    return (
        f"Prefect   {prefect}\nMLflow    {mlflow}\n"
        f"sign in   user {USER}, password {secret}   (Prefect takes both as USER:PASSWORD)\n"
        f"to run    {to_run}\n"
        f"logs      {home / 'logs'}\n"
        "Ctrl-C stops everything, and so does `ablate down` elsewhere"
    )


def service_environment(home: Path, api: str) -> dict[str, str]:
    """Return the environment of all services: databases and passwords are passed on here, never on a command line.

    Passwords, and names by which MLflow may be reached, are kept as the user has set them.
    """
    secret, config = password(home), home / ".access" / "mlflow.ini"
    users = str(config.with_name("users.db")).replace("%", "%%")
    config.touch(mode=0o600)
    config.write_text(AUTH_INI.format(users=users, user=USER), encoding="utf-8")
    usual = {
        "PREFECT_SERVER_API_AUTH_STRING": f"{USER}:{secret}",
        "MLFLOW_AUTH_CONFIG_PATH": str(config),
        "MLFLOW_AUTH_ADMIN_PASSWORD": secret,
        "MLFLOW_FLASK_SERVER_SECRET_KEY": secrets.token_hex(16),
        # MLflow's default list accepts 10.evil.com as an address of a private network
        "MLFLOW_SERVER_ALLOWED_HOSTS": f"localhost,localhost:*,{LOOPBACK},{LOOPBACK}:*",
    }
    variables = usual | os.environ
    return variables | {
        "PREFECT_API_AUTH_STRING": variables["PREFECT_SERVER_API_AUTH_STRING"],
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


def password(home: Path) -> str:
    """Read the home's password, or create one. A lost password also resets MLflow's users, who have the old one."""
    path = home / ".access" / "password"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        (path.parent / "users.db").unlink(missing_ok=True)
        path.touch(mode=0o600)
        path.write_text(secrets.token_urlsafe(18), encoding="ascii")
    return path.read_text(encoding="ascii").strip()


def deploy(started: Services, home: Path) -> str:
    """Create the work pool and the deployments; return the name of one of `ablation-grid`, or nothing."""
    declared, name, commands = SHIPPED, "quickstart", [SETUP]
    if not SHIPPED.is_file():
        files = experiment_files(Path.cwd())
        declared, name = home / ".prefect" / "deployments.yaml", files[0].stem if files else ""
        write_deployments(files, declared)
    if name:
        commands.append([*program("prefect --no-prompt deploy --all --prefect-file"), str(declared)])
    for command in commands:
        if started.run("deploy", command) != 0:
            raise UserError(f"`{' '.join(command)}` failed in {CHECKOUT}; its log is {started.log('deploy')}")
    return name


def keep_going(started: Services, health: str) -> NoReturn:
    """Restart services that die. Flow runs of a dead worker are marked as crashed before it restarts."""
    while True:
        for name, process in list(started.processes.items()):
            code = process.poll()
            if code is None or (name == WORKER and not servers.answers(health)):
                continue  # without its server a worker would die again
            servers.stop_process(process)  # its remaining children may keep the port
            say(f"{name} ended with code {code} and is restarted; its log is {started.log(name)}")
            if name == WORKER:
                started.run("deploy", SETUP)
            started.start(name, started.commands[name])
        time.sleep(1.0)


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
