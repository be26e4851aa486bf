"""How a grid is run, and run again, while processes of it are killed."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any, Protocol

import psutil

from flows.serve.servers import any_free_port
from tests.asked import ask, auth_of
from tests.chaos import processes
from tests.e2e.conftest import ABLATE
from tests.waiting import left_after, soon

NEXT_EVENT = 180.0  # seconds until the next process to kill must be there, or a run be over
ENDED = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")


class Way(Protocol):
    """How a grid is run, and run again."""

    name: str
    kinds: tuple[str, ...]
    services: tuple[str, ...]  # kinds too, whose restart takes longest
    home: Path

    def begin(self) -> None: ...
    def running(self) -> bool: ...
    def succeeded(self) -> bool: ...
    def end(self) -> list[str]:
        """Stop what is still there, and say what should not have been."""
        ...

    def of_kind(self, kind: str) -> list[psutil.Process]:
        return processes.of_kind(self.home, kind)

    def begun_by(self, target: psutil.Process, kind: str) -> list[psutil.Process]:
        """The target, and what must end when it does."""
        return processes.with_descendants(target)

    def replace(self, kind: str) -> None:
        """What was killed, where nobody else does so."""


class Command(Way):
    """`ablate run` from a terminal."""

    name = "ablate run"
    kinds: tuple[str, ...] = ("child of a training", "flow", "worker")
    services: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def __init__(self, home: Path, experiment: Path, environment: dict[str, str]):
        self.home, self.experiment = home, experiment
        self.environment = os.environ | environment | {"ABLATE_HOME": str(home)}
        self.process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        with open(self.home / "said.txt", "ab") as said:
            command = [ABLATE, "run", str(self.experiment), *self.options]
            self.process = subprocess.Popen(
                command, env=self.environment, stdout=said, stderr=said, start_new_session=True
            )

    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def succeeded(self) -> bool:
        return self.process is not None and self.process.returncode == 0

    def end(self) -> list[str]:
        assert self.process is not None and not self.running()
        return [f"left over: {one.pid} {processes.kind(one)}" for one in processes.gone_within(10, self.home)]


class Deployment(Way):
    """A deployment of `ablate up`, which starts its services again when they are killed."""

    name = "ablate up"
    kinds: tuple[str, ...] = ("worker", "child of a training", "flow", "worker", "child of a training")
    services: tuple[str, ...] = processes.SERVICES

    def __init__(self, home: Path, experiment: Path, environment: dict[str, str]):
        self.home, self.experiment = home, experiment
        prefect, mlflow = any_free_port(), any_free_port()
        self.api = f"http://127.0.0.1:{prefect}/api"
        settings = {"ABLATE_HOME": str(home), "ABLATE_PREFECT_PORT": str(prefect), "ABLATE_MLFLOW_PORT": str(mlflow)}
        self.environment = os.environ | environment | settings
        self.up: subprocess.Popen[bytes] | None = None
        self.run = ""

    def begin(self) -> None:
        if not self._up():
            self.home.mkdir(parents=True, exist_ok=True)
            with open(self.home / "said.txt", "ab") as said:
                self.up = up = subprocess.Popen(
                    [ABLATE, "up"], cwd=self.home, env=self.environment, stdout=said, stderr=said
                )
            soon(lambda: up.poll() is not None or processes.of_kind(self.home, "Prefect worker"))
        try:
            deployment = self._ask("deployments/name/ablation-grid/quickstart")["id"]
            asked = {"parameters": {"experiment_file": str(self.experiment)}, "state": {"type": "SCHEDULED"}}
            self.run = self._ask(f"deployments/{deployment}/create_flow_run", asked)["id"]
        except OSError:  # it ended while it was asked; whoever called finds that nothing runs, and begins again
            self.run = ""

    def running(self) -> bool:
        return self._up() and self._state() not in ENDED

    def succeeded(self) -> bool:
        return self._up() and self._state() == "COMPLETED"

    def end(self) -> list[str]:
        """Also a flow run that says Running although nobody runs it."""
        cut_off = left_after(NEXT_EVENT, self._unfinished)
        assert self.up is not None
        self.up.send_signal(signal.SIGTERM)
        self.up.wait(60)
        left = [f"left over: {one.pid} {processes.kind(one)}" for one in processes.gone_within(10, self.home)]
        return [f"{run['name']} is still {run['state_name']}" for run in cut_off] + left

    def _unfinished(self) -> list[dict[str, Any]]:
        unfinished = {"state": {"type": {"any_": ["PENDING", "RUNNING", "CANCELLING"]}}}
        return list(self._ask("flow_runs/filter", {"flow_runs": unfinished}))

    def _ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        return ask(f"{self.api}/{path}", body, auth_of(self.home), attempts=1)

    def _up(self) -> bool:
        return self.up is not None and self.up.poll() is None

    def _state(self) -> str:
        try:
            return str(self._ask(f"flow_runs/{self.run}")["state_type"]) if self.run else "CRASHED"
        except OSError:  # the server was killed, or is busy: asked again
            return ""
