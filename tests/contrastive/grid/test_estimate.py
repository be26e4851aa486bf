"""Predictions from finished cells and from timed steps, and what they count held against real models."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from contrastive.config.cell import Cell, Data, Images
from contrastive.config.evaluation import Evaluation
from contrastive.config.experiment import Speed
from contrastive.data import tokens
from contrastive.errors import UserError
from contrastive.grid import estimate
from contrastive.grid.estimate import CellTime, CostEstimator
from contrastive.grid.identity import evaluation_key
from contrastive.grid.load import load_experiment
from contrastive.grid.plan import Plan, make_plan
from contrastive.models import encoder
from contrastive.runs import store
from contrastive.training import probe
from flows import forecast


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
    store.write_json(estimate.calibration_file(like, on_gpu=False), {"rate": rate})


def estimator(evaluation: Evaluation | None = None, speed: Speed | None = None, on_gpu: bool = False) -> CostEstimator:
    return CostEstimator(evaluation or Evaluation(), speed or Speed(), on_gpu=on_gpu)


def test_nothing_is_known_at_first_then_time_grows_with_texts_epochs_and_passes():
    fit, one = estimator(), cell(100)
    assert fit.total_seconds([one]) is None and fit.total_seconds([]) == 0
    assert fit.predicted(one) is None and fit.basis(one) == "" and fit.evaluation_seconds(one) is None
    for name, seconds in (("one", 10.0), ("two", 12.0), ("three", 90.0)):
        finish(name, one, seconds)
    fit = estimator()
    assert fit.total_seconds([one]) == pytest.approx(12) and fit.basis(one) == "finished"
    assert fit.total_seconds([cell(200), cell(100, epochs=3)]) == pytest.approx(24 + 36, rel=0.1)
    assert fit.seconds(cell(100, loss="rdrop", view="two_stage")) == pytest.approx(24, rel=0.1)
    assert fit.total_seconds([one, cell(100, model="scratch:deberta-v2")]) is None  # another encoder tells nothing


def test_a_folder_that_cannot_be_read_is_left_out(home: Path):
    finish("one", cell(100), 10)
    finish("broken", cell(100), 10)
    finish("odd", cell(100), 10, peak_memory_bytes=None)
    finish("without its model", cell(100, model="file:/nowhere", tune={"last_blocks": 1}), 10)
    (home / "runs" / "broken" / "config.json").write_text("{")
    store.write_json(home / "runs" / "odd" / "config.json", [])
    assert estimator().seconds(cell(100)) == pytest.approx(10)


def test_timed_steps_say_it_without_any_finished_cell_and_finished_ones_correct_it():
    one, other = cell(100, loss="ce"), cell(300, tune={"last_blocks": 1}, loss="ce+supcon")
    calibrate(one)
    fit = estimator()
    assert fit.seconds(one) == 2 * fit.work(one) and fit.basis(one) == "calibration"
    expected = fit.seconds(other)
    assert expected is not None and expected != fit.seconds(one)
    finish("other", other, 1.5 * expected)
    assert estimator().seconds(other) == pytest.approx(1.5 * expected) and estimator().basis(other) == "finished"


def test_cells_that_read_a_store_do_not_pay_for_frozen_blocks():
    tuned = {"last_blocks": 1}
    one, kept = cell(100, tune=tuned), cell(100, tune=tuned | {"frozen_dropout": False})
    calibrate(one)
    alone, stored, computed = (
        estimator(speed=speed).seconds(each) for each, speed in ((one, None), (kept, None), (kept, Speed(reuse="none")))
    )
    assert alone is not None and stored is not None and computed == pytest.approx(alone) and stored < alone
    finish("two", one, 2 * alone, speed={"reuse": "none"})
    assert estimator().seconds(one) == pytest.approx(2 * alone)


def test_timed_steps_of_other_hardware_or_damaged_tell_nothing(monkeypatch: pytest.MonkeyPatch):
    one = cell(100)
    calibrate(one)
    assert estimator().seconds(one) is not None and estimator(on_gpu=True).seconds(one) is None
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr("contrastive.runs.provenance.processor", lambda: "another one")
        assert estimator().seconds(one) is None
    for wrong in ("text", None, [], {"key": []}):
        calibrate(one, wrong)
        assert estimator().seconds(one) is None, wrong


def test_memory_is_of_the_process_the_frozen_weights_and_what_a_cell_has_itself():
    one, other = cell(100, tune={"last_blocks": 1}), cell(100)
    fit = estimator()
    assert estimate.PROCESS < fit.memory(one) < fit.memory(other)
    finish("other", other, 10, peak_memory_bytes=3 * fit.memory(other))
    assert estimator().memory(other) == pytest.approx(3 * fit.memory(other), rel=0.01)


def test_lengths_are_those_of_the_prepared_tokens(home: Path):
    texts = home / "texts.csv"
    texts.write_text("text,label\n" + "".join(f"some words {i},{'ab'[i % 2]}\n" for i in range(120)))
    one = cell(100)
    one = one.model_copy(update={"data": one.data.model_copy(update={"source": f"file:{texts}"})})
    assert estimator().texts(one) == ({"train": 100, "validation": 0, "test": 10}, 128, 128, False)
    tokens.prepare_tokens(one.data, one.encoder, home)
    texts = estimator().texts(one)
    assert texts.counted and texts.length <= texts.longest < 10
    assert texts.counts == {"train": 100, "validation": 0, "test": 10}


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
    assert estimator(evaluation=settings).evaluation_seconds(cell(100)) == pytest.approx(2.5)
    assert estimator(evaluation=settings).evaluation_seconds(twice) == pytest.approx(5.0)
    assert estimator(evaluation=Evaluation(folds=3)).evaluation_seconds(cell(100)) is None


LENGTH = 32
SIZES = {"layers": 3, "hidden": 64, "heads": 2, "vocabulary": 400}


def sized(model: str = "scratch:bert", tune: Any = "full", *, training: Any = None, **objective: Any) -> Cell:
    data = {"source": "file:texts.csv", "train": 100, "validation": 10, "test": 40, "max_length": LENGTH}
    how = {"model": model, "scratch": SIZES, "tune": tune}
    return Cell(data=data, encoder=how, objective=objective, training=training or {}, seed=0)


def built(of: Cell) -> torch.nn.Module:
    return encoder.load_encoder(of.encoder, SIZES["vocabulary"], 0)


@pytest.mark.parametrize("tune", ["full", {"last_blocks": 2}, {"lora": {"r": 4}}])
def test_bytes_are_those_of_the_models_parameters(tune: Any):
    one = sized(tune=tune)
    parameters = list(built(one).parameters())
    trained = sum(p.numel() for p in parameters if p.requires_grad)
    frozen = sum(p.numel() for p in parameters if not p.requires_grad)
    found = estimate.memory_of_cell(one, longest=0)
    assert found - estimate.PROCESS == pytest.approx(4 * frozen + 16 * trained, rel=0.4)


def test_work_is_tokens_times_blocks_times_passes_and_a_store_takes_the_frozen_ones():
    def blocks(of: Cell, stored: bool = False) -> float:
        return estimate.training_work(of, 1000, 10, stored=stored) / (1000 + 10 * estimate.BATCH)

    assert blocks(sized(loss="ce")) == 3 * 3  # forward, and backward by weights and inputs
    assert blocks(sized(tune={"last_blocks": 1}, loss="ce")) == 2 + 3
    assert blocks(sized(tune={"last_blocks": 1}, loss="ce"), stored=True) == 3
    assert blocks(sized(tune={"lora": {"r": 4}}, loss="ce")) == 3 * 2
    assert blocks(sized(loss="rdrop", view="two_stage")) == blocks(sized(loss="ce+mlm")) == 2 * 3 * 3
    longer = sized(training={"epochs": 6})
    embedding = 2 * estimator().work(sized()) - estimator().work(longer)
    assert embedding == 3 * LENGTH * (10 + 40)


def test_a_micro_batch_takes_less_memory():
    whole, part, none = (
        estimate.memory_of_cell(sized(training={"micro_batch": size}), longest)
        for size, longest in ((None, 64), (4, 64), (None, 0))
    )
    assert part - none == pytest.approx((whole - none) / 4, rel=0.01)


SMOKE = Path(__file__).parents[2] / "e2e" / "smoke.yaml"


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    path = tmp_path / "small.yaml"
    path.write_text(SMOKE.read_text() + "resources: {slots: 1}\n")
    return make_plan(load_experiment(path))


@pytest.mark.full
def test_after_a_calibration_a_plan_knows_time_and_memory(small: Plan):
    before = forecast.predict(small)
    assert before.wall_seconds is None and not before.lengths_known
    assert any("--calibrate" in line for line in forecast.prediction_lines(before))
    forecast.time_encoders(small)
    after = forecast.predict(small)
    assert after.wall_seconds is not None and after.device_seconds is not None
    assert (after.slots, after.calibrated, after.finished, after.lengths_known) == (1, 8, 0, True)
    assert 0 < after.device_seconds <= after.wall_seconds < 600
    assert 200 * 2**20 < after.memory_bytes < 2 * 2**30
    said = forecast.forecast_dict(small, forecast.preflight_report(small))
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


def test_where_only_evaluation_is_left_its_time_is_unknown(small: Plan):
    left = replace(small, statuses={cell: replace(s, action="evaluate") for cell, s in small.statuses.items()})
    assert forecast.predict(left).wall_seconds is None
    assert forecast.prediction_lines(forecast.predict(left))[0].startswith("time: unknown")


@pytest.mark.slow
def test_seconds_of_cores_are_those_of_each_cells_own_threads(tmp_path: Path, small: Plan):
    path = tmp_path / "small.yaml"
    path.write_text(path.read_text().replace("base: {", "base: {threads: 2, "))
    plan = make_plan(load_experiment(path))
    parts = forecast.planned_times(plan, estimator())
    assert {part.threads for part in parts} == {1, 2}
    assert forecast.busy_seconds(CellTime(2.0, 1.0, devices=2, threads=3), on_gpu=False) == 15
    assert forecast.busy_seconds(CellTime(2.0, 1.0, devices=2, threads=3), on_gpu=True) == 4


@pytest.mark.full
def test_a_calibration_that_cannot_be_made_says_why(small: Plan, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    with pytest.raises(UserError, match="the calibration failed"):
        forecast.time_encoders(small)


def test_an_image_counts_as_the_tokens_that_the_encoder_makes_of_it():
    data = Data(source="package:digits", images=Images(size=224), train=100, test=10)
    of = Cell(data=data, encoder={"model": "scratch:vit"}, objective={}, training={}, seed=0)
    assert estimate.texts_of(of).longest == 1 + 56**2
    assert estimate.memory_of_cell(of, estimate.texts_of(of).longest) < 8 * 2**30
