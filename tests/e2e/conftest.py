"""A real run of a small grid by the command line, shared by the tests of this folder."""

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from contrastive.config.registry import PACKAGE_ROOT, PACKAGES
from flows.serve.servers import answers, any_free_port
from tests.e2e.preloaded import ABLATE, Preloaded, preloaded
from tests.waiting import soon

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
    with serving(prefect_home) as api:
        yield api


@contextmanager
def serving(home: Path) -> Iterator[str]:
    """A Prefect server; gives the address of its API."""
    port = any_free_port()
    command = [str(Path(sys.executable).parent / "prefect"), "server", "start", "--host", "127.0.0.1", "--port", port]
    environment = os.environ | {"PREFECT_HOME": str(home), "DO_NOT_TRACK": "1"}
    with open(home / "server.log", "w") as log:
        process = subprocess.Popen(list(map(str, command)), env=environment, stdout=log, stderr=log)
    try:
        api = f"http://127.0.0.1:{port}/api"
        soon(lambda: answers(f"{api}/health"), 180, (home / "server.log").read_text, process)
        yield api
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="session")
def ablate_in(prefect_home: Path, server: str, empty_store: Path) -> Iterator[Ablate]:
    """`ablate` against a server that is there already, in processes that have imported everything. A new home has its
    empty store of MLflow already, and cells train in the process of the command unless a test names an engine."""
    settings = {"PREFECT_HOME": str(prefect_home), "PREFECT_API_URL": server}
    settings |= {"XDG_CONFIG_HOME": str(prefect_home / "config")}
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
    dropped = ("MLFLOW_TRACKING_URI", "QUICKSTART", "PYTEST_ARGS")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return kept | {"PREFECT_API_URL": ""} | settings


def install_wheel(folder: Path) -> tuple[Path, Path]:
    """Install the wheel alone into a new environment; return its folders of programs and of packages."""
    source = folder / "source"  # a build leaves a folder whose files would be in later wheels
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "configs", *PACKAGES):
        copy = shutil.copytree if (PACKAGE_ROOT / name).is_dir() else shutil.copy
        copy(PACKAGE_ROOT / name, source / name)
    wheel = ["wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(folder), str(source)]
    subprocess.run([sys.executable, "-m", "pip", *wheel], check=True, cwd=folder)
    environment = folder / "environment"
    venv.create(environment, symlinks=True)
    programs = environment / "bin"
    install = ["--python", str(programs / "python"), "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([sys.executable, "-m", "pip", *install, *map(str, folder.glob("*.whl"))], check=True)
    (site,) = environment.glob("lib/python*/site-packages")
    return programs, site


def caller(settings: dict[str, str], line: Preloaded) -> Ablate:
    """Runs `ablate` with a home; whatever happens, nobody sees a traceback."""
    everywhere = kept(settings)

    def call(
        home: Path, *arguments: object, code: Path | None = None, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """`code`: a folder with a copy of the project to run instead of this one."""
        words, environment = [str(word) for word in arguments], everywhere | {"ABLATE_HOME": str(home)}
        if code is None:
            done = line.run(words, environment, cwd or Path.cwd())
        else:
            other = {"PYTHONPATH": str(code)}
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
