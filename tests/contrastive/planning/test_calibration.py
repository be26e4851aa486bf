"""A real calibration on this machine, of an encoder of nothing: what a plan knows after it, and did not before."""

from dataclasses import replace
from pathlib import Path

import pytest

from contrastive.errors import UserError
from contrastive.planning import calibration
from contrastive.planning.estimate import Fit
from contrastive.planning.makespan import Part
from contrastive.runs import store
from flows import forecast as plans

pytestmark = pytest.mark.slow

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
