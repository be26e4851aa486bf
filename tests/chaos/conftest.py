"""One Prefect server, and one undisturbed grid, shared by all tests of this folder."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos import grid
from tests.chaos.command import Command
from tests.e2e.conftest import serving


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Of everything that is started here: a Prefect server of its own, found by its address."""
    home = tmp_path_factory.mktemp("prefect")
    settings = {"PREFECT_HOME": str(home), "OMP_NUM_THREADS": "1", "PREFECT_WORKER_QUERY_SECONDS": "1"}
    with serving(home) as api:
        yield os.environ | settings | {"PREFECT_API_URL": api}


@pytest.fixture(scope="session")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return grid.write(tmp_path_factory.mktemp("experiment"))


@pytest.fixture
def home(tmp_path: Path, empty_store: Path) -> Path:
    (tmp_path / "home").mkdir()
    shutil.copy(empty_store, tmp_path / "home" / "mlflow.db")
    return tmp_path / "home"


@pytest.fixture(scope="session")
def truth(
    tmp_path_factory: pytest.TempPathFactory, empty_store: Path, experiment: Path, environment: dict[str, str]
) -> dict[str, dict[str, str]]:
    home = tmp_path_factory.mktemp("undisturbed")
    shutil.copy(empty_store, home / "mlflow.db")
    Command(home, experiment, environment).run_to_its_end()
    return grid.results(home)
