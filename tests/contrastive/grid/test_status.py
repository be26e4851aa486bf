"""What is to be done for a cell, and why: reuse, measure again, run, or run again as something has changed."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from contrastive.config.cell import Cell
from contrastive.config.evaluation import Evaluation
from contrastive.evaluation.evaluate_cell import evaluate_cell
from contrastive.grid.status import Status, statuses
from contrastive.runs import store
from contrastive.training.failures import record_failure
from tests.contrastive.training import trained
from tests.contrastive.training.trained import folder_of


@pytest.fixture(scope="module")
def finished(source: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ABLATE_HOME", str(home))
        evaluate_cell(trained.run(make(source)), Evaluation())
    return home


@pytest.fixture
def home(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy = tmp_path / "home"
    shutil.copytree(finished, copy)
    monkeypatch.setenv("ABLATE_HOME", str(copy))
    return copy


def make(source: str, seed: int = 0, loss: str = "ce", **training: object) -> Cell:
    return trained.make(source, seed, data={"train": 32, "test": 30, "validation": 0}, training=training, loss=loss)


def only(cell: Cell, evaluation: Evaluation | None = None) -> Status:
    return statuses([cell], evaluation or Evaluation())[0]


def test_a_finished_cell_is_reused_and_another_seed_or_loss_runs(home: Path, source: str):
    assert only(make(source)).action == "reuse"
    assert only(make(source, seed=1)).action == "run"
    assert only(make(source, loss="supcon")).action == "run"


def test_a_changed_setting_is_named(home: Path, source: str):
    for changes, why in (
        ({"epochs": 2}, "training.epochs changed: 1 → 2"),
        ({"epochs": 3}, "training.epochs changed: 1 → default"),
        ({"weight_decay": 0.5}, "training.weight_decay changed: default → 0.5"),
    ):
        status = only(make(source, **changes))
        assert (status.action, status.why) == ("stale", why)


def test_changed_code_is_named_and_the_older_run_is_known(home: Path, source: str):
    folder = folder_of(make(source))
    config = store.read_json(folder / "config.json")
    config["identity"]["code"] = "0123456789abcdef"
    config["files"]["contrastive.training.terms"] = "fedcba9876543210"
    older = folder.parent / "older"
    folder.rename(older)
    store.write_json(older / "config.json", config)
    store.mark_finished(older, "TRAINED")
    status = only(make(source))
    assert (status.action, status.why) == ("stale", "code changed: contrastive.training.terms")
    assert status.older == "older"


def test_other_metrics_are_measured_again_and_nothing_is_trained(home: Path, source: str):
    few = Evaluation(metrics=("accuracy",))
    assert only(make(source), few).action == "evaluate"
    folder = folder_of(make(source))
    marker = (folder / "TRAINED").read_bytes()
    evaluate_cell(folder, few)
    assert only(make(source), few).action == "reuse"
    assert (folder / "TRAINED").read_bytes() == marker
    names = [s["name"] for s in store.read_json(folder / "scores.json")["scores"]]
    assert [name for name in names if name != "test.collapsed"] == ["test.accuracy"]  # an alarm of a tiny encoder


def test_a_damaged_folder_is_found_and_recomputed(home: Path, source: str):
    folder = folder_of(make(source))
    before = (folder / "embeddings.npz").read_bytes()
    (folder / "embeddings.npz").write_bytes(before[:-100])
    status = only(make(source))
    assert status.action == "stale" and status.why.startswith("damaged: embeddings.npz has")
    evaluate_cell(trained.run(make(source)), Evaluation())
    assert only(make(source)).action == "reuse"
    with np.load(folder / "embeddings.npz") as arrays:
        assert np.isfinite(arrays["test"]).all()


def test_damaged_scores_are_only_measured_again(home: Path, source: str):
    path = folder_of(make(source)) / "scores.json"
    before = path.stat()
    for content in ("{", "[]", '{"scores": []}'):
        path.write_text(content.ljust(before.st_size))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert only(make(source)).action == "evaluate"
    path.write_text("{")
    assert only(make(source)).action == "evaluate"


def test_a_cell_that_failed_or_was_interrupted_runs_and_says_why(home: Path, source: str):
    failed, interrupted = make(source, seed=5), make(source, seed=6)
    record_failure(folder_of(failed), RuntimeError("the reason"))
    status = only(failed)
    assert status.action == "run" and "the reason" in status.why
    folder_of(interrupted).mkdir()
    assert (only(interrupted).action, only(interrupted).why) == ("run", "interrupted")
