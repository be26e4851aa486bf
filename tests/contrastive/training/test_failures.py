"""What goes wrong in a training is said: no number, too little memory, a change since the plan. What can, goes on."""

from pathlib import Path

import pytest
import torch

from contrastive.config.cell import Cell
from contrastive.errors import UserError
from contrastive.models import model
from contrastive.runs import claim, store
from contrastive.stages.failures import try_stage
from contrastive.stages.request import Asked
from contrastive.stages.train_cell import train_cell
from tests.contrastive.training.trained import folder_of, make, numbers, run


def reported(cell: Cell) -> dict:
    """What is kept of a failed training."""
    folder = folder_of(cell)
    report = try_stage(train_cell, folder, Asked(cell, "a cell", 1000))
    assert report is not None and store.failure(folder) == report
    return report


def test_a_loss_that_stops_being_a_number_is_a_result_with_its_step(source: str, home: Path):
    report = reported(make(source, training={"encoder_lr": 1e30, "head_lr": 1e30, "clip": 0, "warmup": 0}))
    assert report["kind"] == "diverged" and report["step"] >= 1


def test_weights_that_the_last_step_spoilt_are_a_divergence_with_its_step(
    source: str, home: Path, monkeypatch: pytest.MonkeyPatch
):
    real = model.Model.after_step

    def spoil(self, progress):
        real(self, progress)
        if progress == 1:
            self.head.weight.fill_(float("nan"))

    monkeypatch.setattr(model.Model, "after_step", torch.no_grad()(spoil))
    report = reported(make(source))
    assert report["kind"] == "diverged" and report["step"] == 7
    assert "head.weight became nan at step 7" in report["error"]


def test_out_of_memory_halves_what_is_encoded_at_a_time_and_keeps_the_batch(
    source: str, home: Path, monkeypatch: pytest.MonkeyPatch
):
    real = model.Model.forward

    def small(self, batch):
        if len(batch) > 3:
            raise torch.cuda.OutOfMemoryError("a planted one")
        return real(self, batch)

    expected = numbers(run(make(source, loss="ce+simcse", training={"micro_batch": 2})))
    monkeypatch.setattr(model.Model, "forward", small)
    folder = run(make(source, loss="ce+simcse"))  # 8 texts, then 4, then 2
    assert numbers(folder) == expected
    assert store.read_json(folder / "provenance.json")["micro_batch"] == claim.attempts(folder)[0]["micro_batch"] == 2


def test_a_text_that_alone_is_too_much_is_a_failure(source: str, home: Path, monkeypatch: pytest.MonkeyPatch):
    def never(self, batch):
        raise torch.cuda.OutOfMemoryError("a planted one")

    monkeypatch.setattr(model.Model, "forward", never)
    assert reported(make(source))["kind"] == "memory"


def test_a_change_since_the_plan_is_refused(source: str, home: Path):
    planned = folder_of(make(source))
    with pytest.raises(UserError, match="changed since this grid was planned"):
        train_cell(planned, Asked(make(source, loss="rdrop"), "a cell", 1000))
