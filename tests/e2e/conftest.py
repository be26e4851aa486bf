"""A real run of a small grid by the command line, shared by the tests of this folder."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flows.serve import ports
from tests.e2e.preloaded import ABLATE, Preloaded, preloaded

SMOKE = Path(__file__).parent / "smoke.yaml"
Ablate = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def prefect_home(tmp_path_factory: pytest.TempPathFactory, empty_prefect: Path) -> Path:
    home = tmp_path_factory.mktemp("prefect")
    shutil.copy(empty_prefect, home)
    return home


@pytest.fixture(scope="session")
def server(prefect_home: Path) -> Iterator[str]:
    """A Prefect server for the tests that do not ask how a flow runs without one; that costs each of them seconds."""
    port = ports.any_free_port()
    command = [str(Path(sys.executable).parent / "prefect"), "server", "start", "--host", "127.0.0.1", "--port", port]
    environment = os.environ | {"PREFECT_HOME": str(prefect_home), "DO_NOT_TRACK": "1"}
    with open(prefect_home / "server.log", "w") as log:
        process = subprocess.Popen(list(map(str, command)), env=environment, stdout=log, stderr=log)
    deadline = time.monotonic() + 120
    while not ports.answers(f"http://127.0.0.1:{port}/api/health"):
        assert process.poll() is None and time.monotonic() < deadline, (prefect_home / "server.log").read_text()
        time.sleep(0.2)
    yield f"http://127.0.0.1:{port}/api"
    process.terminate()
    process.wait(30)


@pytest.fixture(scope="session")
def alone(prefect_home: Path) -> Ablate:
    """Runs `ablate` with a home, without any server; whatever happens, nobody sees a traceback."""
    return caller({"PREFECT_HOME": str(prefect_home)})


@pytest.fixture(scope="session")
def ablate_in(prefect_home: Path, server: str, empty_store: Path) -> Iterator[Ablate]:
    """The same against a server that is there already, in processes that have imported everything. A new home has its
    empty store of MLflow already, and cells train in the process of the command unless a test names an engine."""
    settings = {"PREFECT_HOME": str(prefect_home), "PREFECT_API_URL": server}
    with preloaded(kept(settings)) as line:
        ablate = caller(settings, line)

        def call(home: Path, *arguments: object, **given: Any) -> subprocess.CompletedProcess[str]:
            if not home.exists() and home.parent.is_dir():
                home.mkdir()
                shutil.copy(empty_store, home / "mlflow.db")
            if arguments[0] == "run" and "--engine" not in arguments:
                arguments = (*arguments, "--engine", "inline")
            return ablate(home, *arguments, **given)

        yield call


def kept(settings: dict[str, str]) -> dict[str, str]:
    dropped = ("PREFECT_API_URL", "MLFLOW_TRACKING_URI", "QUICKSTART", "PYTEST_ARGS")
    return {name: value for name, value in os.environ.items() if name not in dropped} | settings


def caller(settings: dict[str, str], line: Preloaded | None = None) -> Ablate:
    everywhere = kept(settings)

    def call(
        home: Path,
        *arguments: object,
        code: Path | None = None,
        cwd: Path | None = None,
        largest_file: int | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """`code`: a folder with a copy of the project to run instead of this one. `largest_file`: in bytes."""
        words, environment = [str(word) for word in arguments], everywhere | {"ABLATE_HOME": str(home)}
        if line is not None and code is None:
            done = line.run(words, environment, cwd or Path.cwd(), largest_file)
        else:
            other = {} if code is None else {"PYTHONPATH": str(code)}
            done = subprocess.run(
                [ABLATE, *words], env=environment | other, cwd=cwd, capture_output=True, text=True, timeout=300
            )
        assert "Traceback" not in done.stdout + done.stderr, done.stdout + done.stderr
        return done

    return call


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory, ablate_in: Ablate) -> Path:
    home = tmp_path_factory.mktemp("finished") / "home"
    done = ablate_in(home, "run", SMOKE)
    assert done.returncode == 0, done.stderr
    return home


@pytest.fixture
def home(finished: Path, tmp_path: Path) -> Path:
    """A copy of the finished home. MLflow's artifacts are named by their place, so that of the original is read."""
    copy = tmp_path / "home"
    shutil.copytree(finished, copy, copy_function=shutil.copy2)
    return copy
