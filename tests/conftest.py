"""Fixtures (`home` with an empty MLflow store, Prefect database, PostgreSQL), test tiers and options of all tests."""

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

HERE = Path(__file__).parent
# `--tier` chooses the tests: `fast` for `make test-fast`, `usual` for `make test`, `all` for `make test-all`. Tests
# marked `full`, and the folders in FULL, run only in `all`; those marked `slow`, and in SLOW, in all tiers but `fast`.
FULL = [HERE / "chaos"]
SLOW = [HERE / folder for folder in ("benchmarks", "e2e", "flows", "fuzz", "tasks")]
SLOW += [HERE / "contrastive" / "training"]
SLOW += [HERE / "reports" / folder for folder in ("figures", "statistics")]
LEFT_OUT = {"fast": ({"full", "slow"}, {*FULL, *SLOW}), "usual": ({"full"}, {*FULL}), "all": (set(), set())}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=LEFT_OUT, default="usual", help="which tests to run, see tests/conftest.py")
    chaos = parser.getgroup("chaos", "the long form of tests/chaos, for `make chaos`")
    chaos.addoption("--kills", type=int, default=0, help="number of kills, also of services (default: a few)")
    chaos.addoption("--seed", type=int, default=0, help="seed of the random moments; for a fuzzer, its first round")
    chaos.addoption("--table", help="Markdown file to write the table of kills to")
    fuzz = parser.getgroup("fuzz", "the long form of tests/fuzz, for `make fuzz`")
    fuzz.addoption("--fuzz-minutes", type=float, default=0, help="minutes for each fuzzer (default: a few rounds)")


def pytest_configure(config: pytest.Config) -> None:
    leftovers.end_with_this_process()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import the tests of a folder that the tier leaves out."""
    return True if collection_path in LEFT_OUT[config.getoption("--tier")][1] else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the tier; run end-to-end tests first, or one of two workers would run them alone at the end."""
    items.sort(key=lambda item: item.get_closest_marker("e2e") is None)
    marks, folders = LEFT_OUT[config.getoption("--tier")]
    kept = [
        item
        for item in items
        if not marks & {mark.name for mark in item.iter_markers()} and folders.isdisjoint(item.path.parents)
    ]
    if config.getoption("--tier") == "fast":
        ends = first_and_last(kept)
        kept = [item for item in kept if item in ends]
    chosen = set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = kept


def first_and_last(items: list[pytest.Item]) -> set[pytest.Item]:
    """Return the first and the last case of each test."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return {case for of_test in cases.values() for case in (of_test[0], of_test[-1])}


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
