"""A home with a real, empty SQLite store of MLflow, and one of Prefect, made once: their migrations take seconds."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from beartype import BeartypeConf
from beartype.claw import beartype_packages
from hypothesis import settings

import tasks  # noqa: F401 (switches all telemetry off)
from contrastive.runs.store import locked
from tests import leftovers
from tests.postgres import server as postgres_server

# Rooms without shapes, in whose signatures types alone are checked; pyproject.toml has both checked elsewhere, also in
# modules of these rooms that it names. A search for shapes in them all had an experiment file take five times as long.
WITHOUT_SHAPES = ("config", "data", "grid", "runs")
beartype_packages(
    [f"contrastive.{room}" for room in WITHOUT_SHAPES],
    conf=BeartypeConf(claw_is_pep526=False, is_pep484_tower=True, violation_type=TypeError),  # an int is a float, too
)

# what takes a moment on an idle machine takes seconds on a busy one
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

HERE = Path(__file__).parent
# Which tests run: `--tier fast` of `make test-fast`, `usual` of `make test`, `all` of `make test-all`. A test that only
# the last one runs carries the mark `full`, one that the first one leaves out the mark `slow`; so do these whole rooms.
FULL = [HERE / "chaos"]
SLOW = [HERE / room for room in ("benchmarks", "e2e", "flows", "fuzz", "tasks")]
SLOW += [HERE / "contrastive" / room for room in ("reuse", "stages", "training")]
SLOW += [HERE / "reports" / room for room in ("figures", "statistics")]
LEFT_OUT = {"fast": ({"full", "slow"}, {*FULL, *SLOW}), "usual": ({"full"}, {*FULL}), "all": (set(), set())}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=LEFT_OUT, default="usual", help="which tests run: see tests/conftest.py")
    chaos = parser.getgroup("chaos", "the long form of tests/chaos, which `make chaos` asks for")
    chaos.addoption("--kills", type=int, default=0, help="so many kills, of services too; left out: a few")
    chaos.addoption("--seed", type=int, default=0, help="which random moments; of a fuzzer, its first round")
    chaos.addoption("--table", help="file to write the table of kills to, in Markdown")
    fuzz = parser.getgroup("fuzz", "the long form of tests/fuzz, which `make fuzz` asks for")
    fuzz.addoption("--fuzz-minutes", type=float, default=0, help="minutes for each fuzzer; left out: a few rounds")


def pytest_configure(config: pytest.Config) -> None:
    if Path("prefect.toml").exists():
        os.environ.setdefault("PREFECT_API_URL", "")  # of `make up`, whose server is none of the tests'
    leftovers.end_with_this_process()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import the tests of a room that is left out."""
    return True if collection_path in LEFT_OUT[config.getoption("--tier")][1] else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that go through several processes begin first: else one of two workers would end with them alone."""
    items.sort(key=lambda item: item.get_closest_marker("e2e") is None)
    marks, rooms = LEFT_OUT[config.getoption("--tier")]
    kept = [
        item
        for item in items
        if not marks & {mark.name for mark in item.iter_markers()} and rooms.isdisjoint(item.path.parents)
    ]
    if config.getoption("--tier") == "fast":
        ends = first_and_last(kept)
        kept = [item for item in kept if item in ends]
    chosen = set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = kept


def first_and_last(items: list[pytest.Item]) -> set[pytest.Item]:
    """The first and the last case of each test."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return {case for same in cases.values() for case in (same[0], same[-1])}


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], object]], Path]:
    """A file that the first worker of this run of the tests makes, and the others find."""
    base = tmp_path_factory.getbasetemp()
    folder = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def make(name: str, write: Callable[[Path], object]) -> Path:
        with locked(folder / "made.lock"):
            if not (folder / name).exists():
                begun = tmp_path_factory.mktemp("made") / name
                write(begun)
                begun.rename(folder / name)
        return folder / name

    return make


@pytest.fixture(scope="session")
def empty_store(made_once: Callable[[str, Callable[[Path], object]], Path]) -> Path:
    from mlflow import MlflowClient

    return made_once("mlflow.db", lambda path: MlflowClient(tracking_uri=f"sqlite:///{path}").search_experiments())


@pytest.fixture(scope="session")
def empty_prefect(made_once: Callable[[str, Callable[[Path], object]], Path]) -> Path:
    """The database of a Prefect server that has not been used."""
    command = [str(Path(sys.executable).parent / "prefect"), "server", "database", "upgrade", "-y"]

    def write(path: Path) -> None:
        environment = os.environ | {"PREFECT_HOME": str(path.parent)}
        subprocess.run(command, env=environment, check=True, capture_output=True)

    return made_once("prefect.db", write)


@pytest.fixture
def home(tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    shutil.copy(empty_store, tmp_path / "mlflow.db")
    return tmp_path


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    with postgres_server() as address:
        yield address
