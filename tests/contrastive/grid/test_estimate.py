"""Work of cells, and predictions from finished cells."""

from pathlib import Path
from typing import Any

import pytest

from contrastive.config.cell import Cell, Data, Images
from contrastive.config.evaluation import Evaluation
from contrastive.config.experiment import Speed
from contrastive.data import tokens
from contrastive.grid import estimate
from contrastive.grid.estimate import CostEstimator
from contrastive.grid.load import load_experiment
from contrastive.grid.plan import make_plan
from contrastive.runs import store
from flows import forecast

pytestmark = pytest.mark.usefixtures("home")


def cell(train: int, epochs: int = 1, model: str = "scratch:bert", tune: Any = "full", **objective: object) -> Cell:
    data = {"source": "file:texts.csv", "train": train, "test": 10}
    how = {"model": model, "tune": tune}
    return Cell(data=data, encoder=how, objective=objective, training={"epochs": epochs}, seed=0)


def finish(name: str, done: Cell, seconds: float, **known: object) -> None:
    folder = store.run_folder(name)
    store.write_json(folder / "config.json", {"cell": done.model_dump(mode="json")})
    store.write_json(folder / "provenance.json", {"wall_seconds": seconds} | known)
    (folder / "DONE").write_text("")


def estimator(evaluation: Evaluation | None = None, speed: Speed | None = None) -> CostEstimator:
    return CostEstimator(evaluation or Evaluation(), speed or Speed())


def test_nothing_is_known_at_first_then_time_grows_with_texts_epochs_and_passes():
    fit, one = estimator(), cell(100)
    assert fit.seconds(one) is None
    assert fit.seconds(one) is None
    for name, seconds in (("one", 10.0), ("two", 12.0), ("three", 90.0)):
        finish(name, one, seconds)
    fit = estimator()
    assert fit.seconds(one) == pytest.approx(12)
    assert fit.seconds(cell(200)) == pytest.approx(24, rel=0.1)
    assert fit.seconds(cell(100, epochs=3)) == pytest.approx(36, rel=0.1)
    assert fit.seconds(cell(100, loss="rdrop", view="two_stage")) == pytest.approx(24, rel=0.1)
    assert fit.seconds(cell(100, model="scratch:deberta-v2")) is None  # another encoder tells nothing


def test_a_folder_that_cannot_be_read_is_left_out(home: Path):
    finish("one", cell(100), 10)
    finish("broken", cell(100), 10)
    finish("odd", cell(100), 10)
    finish("without its model", cell(100, model="file:/nowhere", tune={"last_blocks": 1}), 10)
    (home / "runs" / "broken" / "config.json").write_text("{")
    store.write_json(home / "runs" / "odd" / "config.json", [])
    assert estimator().seconds(cell(100)) == pytest.approx(10)


def test_finished_cells_with_other_tuning_tell_it_until_one_with_the_same_has_finished():
    one, other = cell(100, loss="ce"), cell(300, tune={"last_blocks": 1}, loss="ce+supcon")
    finish("one", one, 10)
    expected = estimator().seconds(other)
    assert expected is not None and expected != 10
    finish("other", other, 1.5 * expected)
    assert estimator().seconds(other) == pytest.approx(1.5 * expected)


def test_lengths_are_those_of_the_prepared_tokens(home: Path):
    texts = home / "texts.csv"
    texts.write_text("text,label\n" + "".join(f"some words {i},{'ab'[i % 2]}\n" for i in range(120)))
    one = cell(100)
    one = one.model_copy(update={"data": one.data.model_copy(update={"source": f"file:{texts}"})})
    assert estimator().texts(one) == ({"train": 100, "validation": 0, "test": 10}, 128, False)
    tokens.prepare_tokens(one.data, one.encoder, home)
    texts = estimator().texts(one)
    assert texts.counted and texts.length < 10
    assert texts.counts == {"train": 100, "validation": 0, "test": 10}


def test_a_cell_takes_as_long_as_its_training_and_its_last_evaluation():
    for number, seconds in enumerate((2.0, 6.0, 3.0)):
        finish(f"c{number}", cell(100), 10)
        attempt = {"stage": "evaluate", "outcome": "done", "began": 100.0, "ended": 100.0 + seconds}
        store.write_json(store.run_folder(f"c{number}") / "attempts" / "0002" / "attempt.json", attempt)
    assert estimator().seconds(cell(100)) == pytest.approx(13)


LENGTH = 32
SIZES = {"layers": 3, "hidden": 64, "heads": 2, "vocabulary": 400}


def sized(model: str = "scratch:bert", tune: Any = "full", *, training: Any = None, **objective: Any) -> Cell:
    data = {"source": "file:texts.csv", "train": 100, "validation": 10, "test": 40, "max_length": LENGTH}
    how = {"model": model, "scratch": SIZES, "tune": tune}
    return Cell(data=data, encoder=how, objective=objective, training=training or {}, seed=0)


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


SMOKE = Path(__file__).parents[2] / "e2e" / "smoke.yaml"


def test_a_plan_knows_its_time_once_a_cell_has_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    path = tmp_path / "small.yaml"
    path.write_text(SMOKE.read_text() + "resources: {slots: 2}\n")
    plan = make_plan(load_experiment(path))
    assert forecast.time_line(plan, estimator()).startswith("time: unknown")
    finish("one", plan.to_train[0], 60)
    fit = CostEstimator(plan.experiment.evaluation, plan.experiment.speed)
    times = [fit.seconds(cell) or 0.0 for cell in plan.to_train]
    document = forecast.forecast_dict(plan, forecast.preflight_report(plan))
    assert max(times) <= document["predicted_seconds"] <= sum(times) / 2 + max(times)
    assert sorted(cell["predicted_seconds"] for cell in document["cells"]) == sorted(times)
    line = forecast.time_line(plan, fit)
    assert ", 2 at a time, without startup and report; estimated from finished cells, texts of data.max_len" in line


def test_an_image_counts_as_the_tokens_that_the_encoder_makes_of_it():
    data = Data(source="package:digits", images=Images(size=224), train=100, test=10)
    of = Cell(data=data, encoder={"model": "scratch:vit"}, objective={}, training={}, seed=0)
    assert estimate.texts_of(of).length == 1 + 56**2
