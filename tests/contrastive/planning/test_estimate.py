"""Predictions from finished cells and from a calibration, and their formulas held against real models and batches."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from contrastive.cells.identity import evaluation_key
from contrastive.config.cell import Cell
from contrastive.config.evaluation import Evaluation
from contrastive.config.speed import Speed
from contrastive.data import tokens
from contrastive.errors import UserError
from contrastive.models import encoder
from contrastive.planning import calibration, cost, estimate
from contrastive.planning.estimate import Fit
from contrastive.planning.makespan import Part
from contrastive.runs import store
from contrastive.views.batches import order
from flows import forecast as plans

RATES = cost.Work(forward=2.0, trained=1.0, moved=0.5, calls=0.1, cell=3.0)


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


def calibrate(like: Cell, **changed: object) -> None:
    content = {"made": "2026-01-01", "rates": RATES, "boot": 5.0, "base": 100, "batch": 2.0, "evaluation": {}} | changed
    store.write_json(calibration.calibration_file(like, "cpu"), content)


def test_nothing_is_known_at_first_then_time_grows_with_texts_epochs_and_passes():
    assert estimate.total_seconds([cell(100)]) is None and estimate.total_seconds([]) == 0
    assert Fit().predicted(cell(100)) is None and Fit().basis(cell(100)) == ""
    assert Fit().evaluation_seconds(cell(100)) is None
    for name, seconds in (("one", 10.0), ("two", 12.0), ("three", 90.0)):
        finish(name, cell(100), seconds)
    assert estimate.total_seconds([cell(100)]) == pytest.approx(12)
    assert estimate.total_seconds([cell(200), cell(100, epochs=3)]) == pytest.approx(24 + 36, rel=0.1)
    assert estimate.total_seconds([cell(100, loss="rdrop", view="two_stage")]) == pytest.approx(24, rel=0.1)
    assert Fit().basis(cell(100)) == "finished"


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
    assert Fit().seconds(cell(10, model="scratch:deberta-v2")) is None  # another encoder is not comparable
    assert estimate.total_seconds([plain, cell(100, model="scratch:deberta-v2")]) is None


def test_a_calibration_says_it_without_any_finished_cell_and_finished_ones_correct_it():
    one, other = cell(100, loss="ce"), cell(300, tune={"last_blocks": 1}, loss="ce+supcon")
    calibrate(one)
    fit = Fit()
    work = cost.work(one, fit.texts(one), fit.batches(one), Evaluation())
    by_hand = 2 * work.forward + work.trained + 0.5 * work.moved + 0.1 * work.calls + 3
    assert fit.seconds(one) == pytest.approx(by_hand) and fit.basis(one) == "calibration"
    formula = fit.seconds(other)
    assert formula is not None and formula != fit.seconds(one)
    finish("other", other, 1.5 * formula)
    assert Fit().seconds(other) == pytest.approx(1.5 * formula)


def test_cells_that_share_frozen_blocks_pay_for_them_once():
    tuned = {"last_blocks": 1}
    one, kept = cell(100, tune=tuned), cell(100, tune=tuned | {"frozen_dropout": False})
    calibrate(one)
    fit = Fit()
    alone, four = fit.seconds(one), fit.seconds(one, together=4)
    common = 2.0 * cost.common(one, fit.batches(one))
    assert alone is not None and four is not None and four == pytest.approx(alone - 0.75 * common)
    stored, computed = fit.seconds(kept), Fit(speed=Speed(reuse="none")).seconds(kept)
    assert stored is not None and computed == pytest.approx(alone) and stored < alone - common
    assert 0 < fit.prefix_seconds(kept, "test") < fit.prefix_seconds(kept, "train") < 1.2 * common
    finish("one", one, 2 * four, speed={"reuse": "none", "together": 4})
    assert Fit().seconds(one) == pytest.approx(2 * alone)


def test_one_of_other_hardware_or_damaged_tells_nothing(monkeypatch: pytest.MonkeyPatch):
    one = cell(100)
    calibrate(one)
    assert Fit(device="gpu").seconds(one) is None
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr("contrastive.runs.provenance.processor", lambda: "another one")
        assert Fit().seconds(one) is None
    calibrate(one, rates=[1.0])
    assert Fit().seconds(one) is None


def test_memory_is_of_the_process_the_frozen_weights_and_what_a_cell_has_itself():
    one, other = cell(100, tune={"last_blocks": 1}), cell(100)
    calibrate(one)
    fit = Fit()
    assert fit.memory(one) == fit.shared(one) + fit.own(one)
    assert fit.shared(one) > fit.shared(other) == 100  # nothing is frozen there
    formula = cost.memory_of_cell(other, fit.batches(other))
    assert fit.own(other) == formula.own + formula.batch  # a batch takes twice as much as the formula says
    finish("other", other, 10, peak_memory_bytes=3 * fit.memory(other))
    assert Fit().memory(other) == pytest.approx(3 * fit.memory(other), rel=0.01)


def test_lengths_are_those_of_the_prepared_tokens(home: Path):
    texts = home / "texts.csv"
    texts.write_text("text,label\n" + "".join(f"some words {i},{'ab'[i % 2]}\n" for i in range(120)))
    one = cell(100)
    one = one.model_copy(update={"data": one.data.model_copy(update={"source": f"file:{texts}"})})
    assert not Fit().texts(one).counted and Fit().batches(one).length == 128
    tokens.prepare_tokens(one.data, one.encoder, home)
    fit = Fit()
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
    assert Fit(evaluation=settings).evaluation_seconds(cell(100)) == pytest.approx(2.5)
    assert Fit(evaluation=settings).evaluation_seconds(twice) == pytest.approx(5.0)
    calibrate(cell(100), evaluation={evaluation_key(Evaluation(folds=3)): 0.5})
    assert Fit(evaluation=Evaluation(folds=3)).evaluation_seconds(cell(100)) == pytest.approx(5.0)


def test_rates_are_found_again_in_what_probes_saw():
    random = np.random.default_rng(0)
    seen = []
    for _ in range(30):
        work = cost.Work(*(random.uniform(0, 5, 4) * (random.random(4) < 0.8)).tolist(), 0.0)
        seen.append([list(work), RATES.seconds(work) * random.normal(1, 0.01)])
    probed = {"peak": 1000, "shared": 300, "own": 400, "batch": 200}
    seen = [[work, took] for work, took in seen if took > 0]
    found = calibration.fit_rates([{"seen": seen, "cell": 3.0, "boot": 5.0, "base": 100, "memory": [probed]}])
    assert found["rates"] == pytest.approx(list(RATES), rel=0.05)
    assert found["batch"] == pytest.approx((1000 - 100 - 300 - 200) / 200)


def test_probes_stand_for_what_trains_least_and_most():
    cells = [cell(100, tune={"last_blocks": blocks}) for blocks in (1, 2)] + [cell(100), cell(100, epochs=2)]
    found = calibration.probes(cells)
    asked = [(probe.encoder.tune.last_blocks, probe.training.batch_size) for probe in found]
    assert asked == [(1, 4), (1, 16), (2, 4), (2, 16), (None, 4), (None, 16)]
    assert {probe.training.epochs for probe in found} == {1}


TEXTS, LENGTH = 8, 32
MADE = cost.Batches(1, TEXTS * LENGTH, TEXTS * LENGTH**2, TEXTS * LENGTH, LENGTH)
SIZES = {"layers": 3, "hidden": 64, "heads": 2, "vocabulary": 400}


def sized(model: str = "scratch:bert", tune: Any = "full", *, training: Any = None, **objective: Any) -> Cell:
    data = {"source": "file:texts.csv", "train": 100, "validation": 10, "test": 40, "max_length": LENGTH}
    how = {"model": model, "scratch": SIZES, "tune": tune}
    return Cell(data=data, encoder=how, objective=objective, training=training or {}, seed=0)


def built(of: Cell) -> torch.nn.Module:
    return encoder.load_encoder(of.encoder, SIZES["vocabulary"], 0)


def counted(of: Cell, *, backward: bool) -> float:
    """GFLOP of one pass, as torch counts the products."""
    model, ids = built(of), torch.randint(5, 400, (TEXTS, LENGTH))
    with FlopCounterMode(display=False) as counter:
        given = model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state.sum()
        if backward:
            given.backward()
    return counter.get_total_flops() / 1e9


@pytest.mark.parametrize("model", ["scratch:bert", "scratch:deberta-v2"])
@pytest.mark.parametrize("tune", ["full", {"last_blocks": 1}, {"last_blocks": 2}])
def test_products_are_those_that_torch_counts(model: str, tune: Any):
    one = sized(model, tune)
    found = cost.training_work(one, MADE, looks=0.0)
    # the lowest block that trains does not ask for the gradient of what went in, which is a part of its third
    assert found.forward + found.trained == pytest.approx(counted(one, backward=True), rel=0.1)
    size = cost.sizes(one.encoder)
    assert size.blocks * size.flops(MADE.tokens, MADE.squares, 1.0) / 1e9 == pytest.approx(
        counted(one, backward=False), rel=0.03
    )


@pytest.mark.parametrize("model", ["scratch:bert", "scratch:deberta-v2"])
@pytest.mark.parametrize("tune", ["full", {"last_blocks": 2}, {"lora": {"r": 4}}])
def test_parameters_are_those_of_the_model(model: str, tune: Any):
    one = sized(model, tune)
    parameters = list(built(one).parameters())
    trained = sum(p.numel() for p in parameters if p.requires_grad)
    frozen = sum(p.numel() for p in parameters if not p.requires_grad)
    assert cost.trained_parameters(one) == pytest.approx(trained, rel=0.02)
    found = cost.memory_of_cell(one, MADE)
    assert found.shared == pytest.approx(4 * frozen, rel=0.03, abs=100)
    assert found.own - found.batch == pytest.approx(16 * trained, rel=0.02)


@pytest.mark.parametrize(("bucket", "budget"), [(1, None), (10, None), (10, 512)])
def test_batches_are_those_that_training_makes(bucket: int, budget: int | None):
    lengths = np.random.default_rng(1).integers(4, 40, 1003)
    made = cost.predicted_batches(lengths, 16, bucket, budget)
    real = order(lengths, 16, bucket, seed=5, epoch=2, budget=budget)
    assert made.number == pytest.approx(len(real), abs=2 if budget else 0)
    assert made.tokens == pytest.approx(sum(len(batch) * lengths[batch].max() for batch in real), rel=0.03)
    assert made.squares == pytest.approx(sum(len(batch) * lengths[batch].max() ** 2 for batch in real), rel=0.03)
    assert made.longest <= budget if budget else (made.length, made.longest) == (39, 16 * 39)


def test_time_grows_with_passes_epochs_and_blocks_and_a_store_takes_the_frozen_ones():
    known = cost.Texts({"train": np.full(100, 32), "validation": np.full(10, 32), "test": np.full(40, 32)}, True)
    made = cost.predicted_batches(known.splits["train"], 16, 10)

    def work(of: Cell) -> cost.Work:
        return cost.work(of, known, made, Evaluation())

    plain = work(sized(tune={"last_blocks": 1}))
    twice = work(sized(tune={"last_blocks": 1}, loss="rdrop", view="two_stage"))
    embedded = 3 * cost.gflop(cost.sizes(sized().encoder), np.full(50, 32))
    assert twice.forward - embedded == pytest.approx(2 * (plain.forward - embedded))
    longer = work(sized(tune={"last_blocks": 1}, training={"epochs": 6}))
    assert longer.calls == 2 * plain.calls and longer.moved == pytest.approx(2 * plain.moved)
    assert work(sized()).forward == pytest.approx(embedded) and work(sized()).trained > 2.5 * plain.trained
    assert cost.training_work(sized(tune={"last_blocks": 1}), made, 0.0, stored=True).forward == 0.0
    assert work(sized(loss="ce+mlm")).trained > 2 * work(sized()).trained


def test_a_hub_encoder_that_is_not_here_is_taken_for_one_of_the_usual_size(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    absent = sized().encoder.model_copy(update={"model": f"hf:nobody/nothing@{'0' * 40}", "scratch": None})
    assert cost.sizes(absent) == cost.BASE


def test_a_micro_batch_takes_less_memory():
    made = cost.predicted_batches(np.full(100, 32), 16, 10)
    whole, part = (cost.memory_of_cell(sized(training={"micro_batch": size}), made) for size in (None, 4))
    assert part.batch == pytest.approx(whole.batch / 4, rel=0.01) and part.shared == whole.shared


SMOKE = Path(__file__).parents[2] / "e2e" / "smoke.yaml"


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> plans.Plan:
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    path = tmp_path / "small.yaml"
    path.write_text(SMOKE.read_text() + "resources: {slots: 1}\n")
    return plans.make_forecast(path)


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
    said = plans.as_dict(small, plans.foreseen(small))
    assert said["predicted"]["wall_seconds"] == pytest.approx(after.wall_seconds)
    assert all(cell["rests_on"] == "calibration" and cell["predicted"]["seconds"] > 0 for cell in said["cells"])
    known = Fit().calibration(small.to_do[0].cell)
    assert known.boot > 0.5 and known.rates.cell > 0 and known.rates.calls > 0
    assert len(list((store.home() / "cache" / "calibration").iterdir())) == 1


@pytest.mark.full
def test_where_only_evaluation_is_left_its_time_is_unknown_until_a_calibration(
    small: plans.Plan, monkeypatch: pytest.MonkeyPatch
):
    left = replace(small, statuses={cell: replace(s, action="evaluate") for cell, s in small.statuses.items()})
    assert plans.predict(left).wall_seconds is None and plans.prediction_lines(plans.predict(left))[0].startswith(
        "time: unknown"
    )
    plans.time_encoders(left)
    after = plans.predict(left)
    assert after.wall_seconds is not None and after.wall_seconds > 0 and after.evaluation_known


@pytest.mark.slow
def test_seconds_of_cores_are_those_of_each_cells_own_threads(tmp_path: Path, small: plans.Plan):
    path = tmp_path / "small.yaml"
    path.write_text(path.read_text().replace("base: {", "base: {threads: 2, "))
    cells = plans.cells_to_train(plans.make_forecast(path))
    parts, _ = plans.groups_ahead(plans.make_forecast(path), [[cell] for cell in cells], Fit())
    assert [part.threads for part in parts] == [cell.training.threads for cell in cells]
    assert {part.threads for part in parts} == {1, 2}
    assert plans.busy(Part(2.0, 1.0, devices=2, threads=3), on_gpu=False) == 15
    assert plans.busy(Part(2.0, 1.0, devices=2, threads=3), on_gpu=True) == 4


@pytest.mark.full
def test_a_calibration_that_cannot_be_made_says_why(small: plans.Plan, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    with pytest.raises(UserError, match="the calibration failed"):
        plans.time_encoders(small)


@pytest.mark.parametrize("name", ["rates", "boot", "base", "batch", "evaluation"])
def test_a_calibration_of_another_shape_is_none(name: str, tmp_path: Path):
    whole = {"made": "today", "rates": [1.0] * 5, "boot": 1.0, "base": 1, "batch": 1.0, "evaluation": {"key": 1.0}}
    path = tmp_path / "some.json"
    store.write_json(path, whole)
    assert calibration.read_calibration(path) is not None
    for wrong in ("text", None, ["text"] * 5, {"key": []}):
        store.write_json(path, whole | {name: wrong})
        assert calibration.read_calibration(path) is None, wrong
