"""One Prefect server, and one undisturbed grid, shared by all tests of this folder."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.serve import ports
from tests.chaos import grid, soak, ways


def prefect(*arguments: str) -> list[str]:
    return [str(Path(sys.executable).parent / "prefect"), *arguments]


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Of everything that is started here: a Prefect server of their own, found by its address."""
    home, port = tmp_path_factory.mktemp("prefect"), str(ports.any_free_port())
    settings = {"PREFECT_HOME": str(home), "OMP_NUM_THREADS": "1", "PREFECT_WORKER_QUERY_SECONDS": "1"}
    command = prefect("server", "start", "--host", "127.0.0.1", "--port", port)
    with open(home / "server.log", "wb") as log:
        server = subprocess.Popen(command, env=os.environ | settings, stdout=log, stderr=log)
    try:
        api = f"http://127.0.0.1:{port}/api"
        ways.wait(lambda: ports.answers(f"{api}/health"), "Prefect's server did not start")
        yield settings | {"PREFECT_API_URL": api}
    finally:
        server.terminate()
        server.wait(30)


@pytest.fixture(scope="session")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return grid.write(tmp_path_factory.mktemp("experiment"))


@pytest.fixture(scope="session")
def finished(
    tmp_path_factory: pytest.TempPathFactory, empty_store: Path, experiment: Path, environment: dict[str, str]
) -> Path:
    """A home in which the grid ran undisturbed."""
    home = tmp_path_factory.mktemp("finished")
    shutil.copy(empty_store, home / "mlflow.db")
    soak.undisturbed(home, experiment, environment)
    return home


@pytest.fixture(scope="session")
def truth(finished: Path) -> dict[str, dict[str, str]]:
    return grid.results(finished)
