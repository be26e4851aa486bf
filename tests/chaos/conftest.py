"""One Prefect server, and one undisturbed grid, shared by all tests of this folder."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos import grid, soak
from tests.e2e.conftest import serving


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Of everything that is started here: a Prefect server of their own, found by its address."""
    home = tmp_path_factory.mktemp("prefect")
    settings = {"PREFECT_HOME": str(home), "OMP_NUM_THREADS": "1", "PREFECT_WORKER_QUERY_SECONDS": "1"}
    with serving(home) as api:
        yield settings | {"PREFECT_API_URL": api}


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
