"""Predictions from finished cells and from timed steps, and what they count held against real models and batches."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from contrastive.config.cell import Cell
from contrastive.config.evaluation import Evaluation
from contrastive.config.experiment import Speed
from contrastive.data import tokens
from contrastive.errors import UserError
from contrastive.grid import estimate
from contrastive.grid.estimate import Batches, CostEstimator
from contrastive.grid.identity import evaluation_key
from contrastive.grid.schedule import CellTime
from contrastive.models import encoder
from contrastive.runs import store
from contrastive.training import probe
from contrastive.views.batches import order
from flows import forecast as plans


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path))
    return tmp_path


def cell(train: int, epochs: int = 1, model: str = "scratch:bert", tune: Any = "full", **objective: object) -> Cell:
    data = {"source": "file:texts.csv", "train": train, "test": 10}
    how = {"model": model, "tune": tune}
    return Cell(data=data, encoder=how, objective=objective, training={"epochs": epochs}, seed=0)


def finish(name: str, done: Cell, seconds: float, **known: object) -> None:
    folder = store.run_folder(name)
    store.write_json(folder / "config.json", {"cell": done.model_dump(mode="json")})
    store.write_json(folder / "provenance.json", {"wall_seconds": seconds} | known)
    (folder / "DONE").write_text("")


def calibrate(like: Cell, rate: object = 2.0) -> None:
    store.write_json(estimate.calibration_file(like, "cpu"), {"rate": rate})


def test_nothing_is_known_at_first_then_time_grows_with_texts_epochs_and_passes():
    assert estimate.total_seconds([cell(100)]) is None and estimate.total_seconds([]) == 0
    assert CostEstimator().predicted(cell(100)) is None and CostEstimator().basis(cell(100)) == ""
    assert CostEstimator().evaluation_seconds(cell(100)) is None
    for name, seconds in (("one", 10.0), ("two", 12.0), ("three", 90.0)):
        finish(name, cell(100), seconds)
    assert estimate.total_seconds([cell(100)]) == pytest.approx(12)
    assert estimate.total_seconds([cell(200), cell(100, epochs=3)]) == pytest.approx(24 + 36, rel=0.1)
    assert estimate.total_seconds([cell(100, loss="rdrop", view="two_stage")]) == pytest.approx(24, rel=0.1)
    assert CostEstimator().basis(cell(100)) == "finished"


def test_a_folder_that_cannot_be_read_is_left_out(home: Path):
    finish("one", cell(100), 10)
    finish("broken", cell(100), 10)
    finish("odd", cell(100), 10, peak_memory_bytes=None)
    (home / "runs" / "broken" / "config.json").write_text("{")
    store.write_json(home / "runs" / "odd" / "config.json", [])
    assert estimate.total_seconds([cell(100)]) == pytest.approx(10)


def test_cells_alike_are_known_best():
    supcon, plain = cell(100, loss="ce+supcon"), cell(100)
    finish("plain", plain, 10.0)
    finish("supcon", supcon, 30.0)
    finish("other", cell(100, epochs=2), 100.0)
    assert estimate.total_seconds([supcon]) == pytest.approx(30)
    assert estimate.total_seconds([cell(50, loss="ce+supcon")]) == pytest.approx(15, rel=0.2)  # of its objective
    two_passes = estimate.total_seconds([cell(100, loss="ce+swav")])
    assert two_passes == pytest.approx(60, rel=0.1)  # of its encoder alone, and its usual view encodes twice
    assert CostEstimator().seconds(cell(10, model="scratch:deberta-v2")) is None  # another encoder is not comparable
    assert estimate.total_seconds([plain, cell(100, model="scratch:deberta-v2")]) is None


def test_timed_steps_say_it_without_any_finished_cell_and_finished_ones_correct_it():
    one, other = cell(100, loss="ce"), cell(300, tune={"last_blocks": 1}, loss="ce+supcon")
    calibrate(one)
    fit = CostEstimator()
    assert fit.seconds(one) == 2 * fit.work(one) and fit.basis(one) == "calibration"
    expected = fit.seconds(other)
    assert expected is not None and expected != fit.seconds(one)
    finish("other", other, 1.5 * expected)
    assert (
        CostEstimator().seconds(other) == pytest.approx(1.5 * expected) and CostEstimator().basis(other) == "finished"
    )


def test_cells_that_read_a_store_do_not_pay_for_frozen_blocks():
    tuned = {"last_blocks": 1}
    one, kept = cell(100, tune=tuned), cell(100, tune=tuned | {"frozen_dropout": False})
    calibrate(one)
    fit = CostEstimator()
    alone, stored, computed = (
        fit.seconds(one),
        fit.seconds(kept),
        CostEstimator(speed=Speed(reuse="none")).seconds(kept),
    )
    assert alone is not None and stored is not None and computed == pytest.approx(alone)
    saved = alone - stored  # it embeds from the store, too
    assert 0 < fit.prefix_seconds(kept, "test") < fit.prefix_seconds(kept, "train") < saved
    finish("one", one, 2 * alone, speed={"reuse": "none", "together": 4})  # of an earlier version, which shared passes
    assert CostEstimator().seconds(one) == alone
    finish("two", one, 2 * alone, speed={"reuse": "none"})
    assert CostEstimator().seconds(one) == pytest.approx(2 * alone)


def test_timed_steps_of_other_hardware_or_damaged_tell_nothing(monkeypatch: pytest.MonkeyPatch):
    one = cell(100)
    calibrate(one)
    assert CostEstimator().seconds(one) is not None and CostEstimator(device="gpu").seconds(one) is None
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr("contrastive.runs.provenance.processor", lambda: "another one")
        assert CostEstimator().seconds(one) is None
    for wrong in ("text", None, [], {"key": []}):
        calibrate(one, wrong)
        assert CostEstimator().seconds(one) is None, wrong


def test_memory_is_of_the_process_the_frozen_weights_and_what_a_cell_has_itself():
    one, other = cell(100, tune={"last_blocks": 1}), cell(100)
    fit = CostEstimator()
    assert estimate.PROCESS < fit.memory(one) < fit.memory(other)
    finish("other", other, 10, peak_memory_bytes=3 * fit.memory(other))
    assert CostEstimator().memory(other) == pytest.approx(3 * fit.memory(other), rel=0.01)


def test_lengths_are_those_of_the_prepared_tokens(home: Path):
    texts = home / "texts.csv"
    texts.write_text("text,label\n" + "".join(f"some words {i},{'ab'[i % 2]}\n" for i in range(120)))
    one = cell(100)
    one = one.model_copy(update={"data": one.data.model_copy(update={"source": f"file:{texts}"})})
    assert not CostEstimator().texts(one).counted and CostEstimator().batches(one).length == 128
    tokens.prepare_tokens(one.data, one.encoder, home)
    fit = CostEstimator()
    assert fit.texts(one).counted and fit.batches(one).length < 10
    sizes = {name: len(found) for name, found in fit.texts(one).splits.items()}
    assert sizes == {"train": 100, "validation": 0, "test": 10}


def test_evaluation_takes_what_it_took_of_the_same_settings():
    settings = Evaluation()
    key = evaluation_key(settings)
    for number, seconds in enumerate((2.0, 6.0, 3.0)):
        finish(f"c{number}", cell(100), 10)
        folder = store.run_folder(f"c{number}")
        store.write_json(folder / "scores.json", {"key": key if number != 1 else "other"})
        attempt = {"stage": "evaluate", "outcome": "done", "began": 100.0, "ended": 100.0 + seconds}
        store.write_json(folder / "attempts" / "0002" / "attempt.json", attempt)
    twice = cell(100)
    twice = twice.model_copy(update={"data": twice.data.model_copy(update={"test": 20})})
    assert CostEstimator(evaluation=settings).evaluation_seconds(cell(100)) == pytest.approx(2.5)
    assert CostEstimator(evaluation=settings).evaluation_seconds(twice) == pytest.approx(5.0)
    assert CostEstimator(evaluation=Evaluation(folds=3)).evaluation_seconds(cell(100)) is None


LENGTH = 32
MADE = Batches(1, 8 * LENGTH, 8 * LENGTH, LENGTH)
SIZES = {"layers": 3, "hidden": 64, "heads": 2, "vocabulary": 400}


def sized(model: str = "scratch:bert", tune: Any = "full", *, training: Any = None, **objective: Any) -> Cell:
    data = {"source": "file:texts.csv", "train": 100, "validation": 10, "test": 40, "max_length": LENGTH}
    how = {"model": model, "scratch": SIZES, "tune": tune}
    return Cell(data=data, encoder=how, objective=objective, training=training or {}, seed=0)


def built(of: Cell) -> torch.nn.Module:
    return encoder.load_encoder(of.encoder, SIZES["vocabulary"], 0)


@pytest.mark.parametrize("model", ["scratch:bert", "scratch:deberta-v2"])
@pytest.mark.parametrize("tune", ["full", {"last_blocks": 2}, {"lora": {"r": 4}}])
def test_bytes_are_those_of_the_models_parameters(model: str, tune: Any):
    one = sized(model, tune)
    parameters = list(built(one).parameters())
    trained = sum(p.numel() for p in parameters if p.requires_grad)
    frozen = sum(p.numel() for p in parameters if not p.requires_grad)
    found = estimate.memory_of_cell(one, MADE._replace(longest=0))
    assert found - estimate.PROCESS == pytest.approx(4 * frozen + 16 * trained, rel=0.15, abs=100)


@pytest.mark.parametrize(("bucket", "budget"), [(1, None), (10, None), (10, 512)])
def test_batches_are_those_that_training_makes(bucket: int, budget: int | None):
    lengths = np.random.default_rng(1).integers(4, 40, 1003)
    made = estimate.predicted_batches(lengths, 16, bucket, budget)
    real = order(lengths, 16, bucket, seed=5, epoch=2, budget=budget)
    assert made.number == pytest.approx(len(real), abs=2 if budget else 0)
    assert made.tokens == pytest.approx(sum(len(batch) * lengths[batch].max() for batch in real), rel=0.03)
    assert made.longest <= budget if budget else (made.length, made.longest) == (39, 16 * 39)


def test_work_is_tokens_times_blocks_times_passes_and_a_store_takes_the_frozen_ones():
    def blocks(of: Cell, **how: Any) -> float:
        return estimate.training_work(of, MADE, **how) / (MADE.tokens + estimate.BATCH)

    looks = 3 + 2 / estimate.CHECK_EVERY  # forward, and backward by weights and inputs; at times a term's own
    assert blocks(sized(loss="ce")) == pytest.approx(3 * looks)
    assert blocks(sized(tune={"last_blocks": 1}, loss="ce")) == pytest.approx(2 + looks)
    assert blocks(sized(tune={"last_blocks": 1}, loss="ce"), stored=True) == pytest.approx(looks)
    assert blocks(sized(tune={"lora": {"r": 4}}, loss="ce")) == pytest.approx(3 * (2 + 1 / estimate.CHECK_EVERY))
    two_terms = 3 + 2 * 2 / estimate.CHECK_EVERY
    assert blocks(sized(loss="rdrop", view="two_stage")) == pytest.approx(2 * 3 * two_terms)
    assert blocks(sized(loss="ce+mlm")) == pytest.approx(2 * 3 * two_terms + estimate.GUESSES)
    longer = sized(training={"epochs": 6})
    embedding = 2 * CostEstimator().work(sized()) - CostEstimator().work(longer)
    assert embedding == 3 * LENGTH * (10 + 40)


def test_a_hub_encoder_that_is_not_here_is_taken_for_one_of_the_usual_size(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    absent = sized().encoder.model_copy(update={"model": f"hf:nobody/nothing@{'0' * 40}", "scratch": None})
    assert estimate.sizes(absent) == estimate.BASE


def test_a_micro_batch_takes_less_memory():
    whole, part, none = (
        estimate.memory_of_cell(sized(training={"micro_batch": size}), MADE._replace(longest=longest))
        for size, longest in ((None, 512), (4, 512), (None, 0))
    )
    assert part - none == pytest.approx((whole - none) / 4, rel=0.01)


SMOKE = Path(__file__).parents[2] / "e2e" / "smoke.yaml"


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> plans.Plan:
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    path = tmp_path / "small.yaml"
    path.write_text(SMOKE.read_text() + "resources: {slots: 1}\n")
    return plans.load_plan(path)


@pytest.mark.full
def test_after_a_calibration_a_plan_knows_time_and_memory(small: plans.Plan):
    before = plans.predict(small)
    assert before.wall_seconds is None and not before.lengths_known
    assert any("--calibrate" in line for line in plans.prediction_lines(before))
    plans.time_encoders(small)
    after = plans.predict(small)
    assert after.wall_seconds is not None and after.device_seconds is not None
    assert (after.slots, after.calibrated, after.finished, after.lengths_known) == (1, 8, 0, True)
    assert 0 < after.device_seconds <= after.wall_seconds < 600
    assert 200 * 2**20 < after.memory_bytes < 2 * 2**30
    said = plans.forecast_dict(small, plans.preflight_report(small))
    assert said["predicted"]["wall_seconds"] == pytest.approx(after.wall_seconds)
    assert all(cell["rests_on"] == "calibration" and cell["predicted"]["seconds"] > 0 for cell in said["cells"])
    assert len(list((store.home() / "cache" / "calibration").iterdir())) == 1


@pytest.mark.slow
def test_data_of_a_single_step_can_be_timed(home: Path):
    texts = home / "texts.csv"
    texts.write_text("text,label\n" + "".join(f"some words {i},{'ab'[i % 2]}\n" for i in range(30)))
    one = cell(12)
    one = one.model_copy(update={"data": one.data.model_copy(update={"source": f"file:{texts}"})})
    assert probe.seconds_of_work(one, Speed()) > 0


def test_where_only_evaluation_is_left_its_time_is_unknown(small: plans.Plan):
    left = replace(small, statuses={cell: replace(s, action="evaluate") for cell, s in small.statuses.items()})
    assert plans.predict(left).wall_seconds is None
    assert plans.prediction_lines(plans.predict(left))[0].startswith("time: unknown")


@pytest.mark.slow
def test_seconds_of_cores_are_those_of_each_cells_own_threads(tmp_path: Path, small: plans.Plan):
    path = tmp_path / "small.yaml"
    path.write_text(path.read_text().replace("base: {", "base: {threads: 2, "))
    cells = plans.cells_to_train(plans.load_plan(path))
    parts, _ = plans.planned_times(plans.load_plan(path), cells, CostEstimator())
    assert [part.threads for part in parts] == [cell.training.threads for cell in cells]
    assert {part.threads for part in parts} == {1, 2}
    assert plans.busy_seconds(CellTime(2.0, 1.0, devices=2, threads=3), on_gpu=False) == 15
    assert plans.busy_seconds(CellTime(2.0, 1.0, devices=2, threads=3), on_gpu=True) == 4


@pytest.mark.full
def test_a_calibration_that_cannot_be_made_says_why(small: plans.Plan, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    with pytest.raises(UserError, match="the calibration failed"):
        plans.time_encoders(small)
