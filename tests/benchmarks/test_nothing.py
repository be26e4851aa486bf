"""Cells that compute nothing go through the real stages, so they must take what these give them."""

from pathlib import Path

import pytest

from benchmarks import nothing
from contrastive.evaluation import evaluate
from contrastive.grid.identity import cell_id, identity
from contrastive.grid.load import load_experiment
from contrastive.runs import store
from contrastive.training import train_cell
from contrastive.training.job import TrainRequest


def test_a_cell_that_computes_nothing_passes_training_and_evaluation(home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(train_cell, "train_here", train_cell.train_here)  # restored after the stand-ins
    monkeypatch.setattr(evaluate, "evaluate_folder", evaluate.evaluate_folder)
    experiment = load_experiment(nothing.experiment(home, 1))
    (cell,) = experiment.cells
    name = cell_id(identity(cell))
    assert nothing.train(TrainRequest(cell, "a cell", 1000), name) is None
    assert nothing.evaluate(name, experiment.experiment.evaluation) is None
    scores = store.read_json(store.run_folder(name) / "scores.json")["scores"]
    assert {score["name"]: score["value"] for score in scores} == {"test.accuracy": 0.5, "test.macro_f1": 0.5}
