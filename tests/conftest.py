"""Fixtures (`home` with an empty MLflow store, Prefect database, PostgreSQL) and options of all tests."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from beartype import BeartypeConf
from beartype.claw import beartype_packages
from hypothesis import settings

import tasks  # noqa: F401 (switches all telemetry off)
from contrastive.runs.store import locked
from tasks import empty_databases
from tests import leftovers
from tests.postgres import server as postgres_server

# Packages whose signatures have no shapes: only types are checked here. pyproject.toml has types and shapes checked
# elsewhere, also in modules of these packages that it names. With shapes checked here, too, reading an experiment file
# took five times as long.
WITHOUT_SHAPES = ("config", "data", "grid", "runs")
beartype_packages(
    [f"contrastive.{package}" for package in WITHOUT_SHAPES],
    conf=BeartypeConf(claw_is_pep526=False, is_pep484_tower=True, violation_type=TypeError),  # an int counts as a float
)

# no deadlines: a test that is quick on an idle machine takes seconds on a busy one
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    long = parser.getgroup("long", "how long tests/chaos and tests/fuzz take, for `make chaos` and `make fuzz`")
    long.addoption("--kills", type=int, default=3, help="number of kills")
    long.addoption("--fuzz-minutes", type=float, default=0, help="minutes for each fuzzer (default: a few rounds)")
    long.addoption("--seed", type=int, default=0, help="seed of the random moments; for a fuzzer, its first round")


def pytest_configure(config: pytest.Config) -> None:
    leftovers.end_with_this_process()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files, or one of two workers would run them alone at the end."""
    items.sort(key=lambda item: "e2e" not in item.path.parts)


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], object]], Path]:
    """Return a function that makes a file once per test run: the first worker writes it, the others reuse it."""
    base = tmp_path_factory.getbasetemp()
    folder = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def make(name: str, write: Callable[[Path], object]) -> Path:
        with locked(folder / "made.lock"):
            if not (folder / name).exists():
                partial = tmp_path_factory.mktemp("made") / name
                write(partial)
                partial.rename(folder / name)
        return folder / name

    return make


@pytest.fixture(scope="session")
def empty_store(made_once: Callable[[str, Callable[[Path], object]], Path]) -> Path:
    """An empty SQLite store of MLflow."""
    return made_once("mlflow.db", lambda path: empty_database("mlflow", path))


@pytest.fixture(scope="session")
def empty_prefect(made_once: Callable[[str, Callable[[Path], object]], Path]) -> Path:
    """The database of an unused Prefect server."""
    return made_once("prefect.db", lambda path: empty_database("prefect", path))


def empty_database(library: str, path: Path) -> None:
    """Copy the installation's, or make one, which takes ten seconds of migrations."""
    empty_databases.begin_with_copy(library, path)
    if not path.exists():
        empty_databases.make(library, path)


@pytest.fixture
def home(tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh ABLATE_HOME with an empty MLflow store."""
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    shutil.copy(empty_store, tmp_path / "mlflow.db")
    return tmp_path


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL server, with user and password."""
    with postgres_server() as address:
        yield address
