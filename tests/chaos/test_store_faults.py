"""A store that fails: files harmed, a full disk, a read-only mount, a process that ends at any operation."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from contrastive.config.cell import Cell
from contrastive.errors import UserError
from contrastive.grid.identity import cell_id, identity
from contrastive.grid.status import statuses
from contrastive.runs import claim, store
from contrastive.training.job import TrainRequest
from tasks import worker_calls
from tests.chaos import boundary, grid


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Cell:
    texts = grid.write(tmp_path_factory.mktemp("texts")).parent / "texts.csv"
    return Cell(
        data={"source": f"file:{texts}", "train": 48, "validation": 16, "test": 32, "max_length": 16},
        encoder={"model": "scratch:bert", "scratch": {"layers": 1, "hidden": 16, "heads": 2, "vocabulary": 300}},
        objective={"loss": "ce"},
        training={"epochs": 2, "batch_size": 8, "head_lr": 1e-3, "encoder_lr": 1e-3},
        seed=0,
    ).canonical()


@pytest.fixture(scope="module")
def trials(
    cell: Cell, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> list[dict[str, Any]]:
    """A cell that was stopped at each operation on its files in turn, and begun again."""
    folder = tmp_path_factory.mktemp("trials")
    (folder / "cell.json").write_text(cell.model_dump_json())
    share = "1" if request.config.getoption("--kills") else "16"
    command = [sys.executable, "-m", "tests.chaos.boundary", str(folder), str(folder / "cell.json"), share]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_killed_between_any_two_operations_it_ends_with_the_same_numbers(trials: list[dict[str, Any]]):
    killed = [one for one in trials if one["mode"] == "kill"]
    assert len(killed) > 8 and all(one["killed"] for one in killed)
    assert not [one for one in killed if wrong(one)]


def test_a_disk_full_at_any_operation_is_said_in_words_and_nothing_half_written_is_believed(
    trials: list[dict[str, Any]],
):
    full = [one for one in trials if one["mode"] == "full"]
    assert len(full) > 8 and not [one for one in full if wrong(one)]
    said = [one["report"] for one in full if one["report"]]
    assert said and {report["kind"] for report in said} == {"infrastructure"}
    assert all("the disk is full: could not write" in report["error"] for report in said)


def wrong(one: dict[str, Any]) -> bool:
    well = one["believed"] and one["finished"] and not one["crash"] and not one["failed"]
    return not well or one["trainings"] > 1 or one["extra"] > boundary.CHECKPOINT_EVERY


@pytest.fixture(scope="module")
def made(cell: Cell, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with one finished cell."""
    home = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ABLATE_HOME", str(home))
        assert do(cell) is None
    return home


@pytest.fixture
def home(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path / "home"))
    return Path(shutil.copytree(made, tmp_path / "home", copy_function=shutil.copy2))


def do(cell: Cell) -> dict[str, Any] | None:
    name = cell_id(identity(cell))
    report = worker_calls.train(TrainRequest(cell, "a cell", boundary.CHECKPOINT_EVERY), name)
    return report or worker_calls.evaluate(name, boundary.EVALUATION)


def test_what_is_told_of_attempts_survives_a_harmed_file(cell: Cell, home: Path):
    (run,) = home.glob("runs/*")
    next((run / "attempts").glob("*/attempt.json")).write_bytes(b"")
    (run / "TRAINED").unlink()
    assert do(cell) is None
    assert [known["outcome"] for known in claim.attempts(run)] == ["done", "done", "done"]


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """A real mount for root, whom permissions do not stop; permissions for everybody else."""
    if os.geteuid() == 0:
        subprocess.run(["mount", "--bind", folder, folder], check=True)
        subprocess.run(["mount", "-o", "remount,ro,bind", folder], check=True)
    else:
        folders = [path for path in (folder, *folder.rglob("*")) if path.is_dir()]
        for path in folders:
            path.chmod(0o555)
    try:
        yield
    finally:
        if os.geteuid() == 0:
            subprocess.run(["umount", folder], check=True)
        else:
            for path in folders:
                path.chmod(0o755)


def test_a_read_only_store_is_named_and_finished_cells_are_read_from_it(cell: Cell, home: Path, made: Path):
    with read_only(home):
        with pytest.raises(UserError, match="cannot write to .*ABLATE_HOME"):
            store.check_home()
        (status,) = statuses([cell], boundary.EVALUATION)
        assert status.action == "reuse"
        report = do(cell.model_copy(update={"seed": 1}))
        assert report is not None and report["kind"] == "infrastructure"
        assert "choose another place with ABLATE_HOME" in report["error"]
    assert grid.results(home) == grid.results(made)
