"""A real calibration on this machine, of an encoder of nothing: what a plan knows after it, and did not before."""

from pathlib import Path

import pytest

from contrastive import store
from contrastive.errors import UserError
from contrastive.estimate import Fit
from flows import plan as plans

SMOKE = Path(__file__).parents[1] / "e2e" / "smoke.yaml"


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> plans.Plan:
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    path = tmp_path / "small.yaml"
    path.write_text(SMOKE.read_text() + "resources: {slots: 1}\n")
    return plans.make(path)


def test_after_a_calibration_a_plan_knows_time_and_memory(small: plans.Plan):
    before = plans.predict(small)
    assert before.wall_seconds is None and not before.lengths_known
    assert any("--calibrate" in line for line in plans.lines(before, small.experiment))
    plans.calibrate(small)
    after = plans.predict(small)
    assert after.wall_seconds is not None and after.slot_seconds is not None
    assert (after.slots, after.calibrated, after.finished, after.lengths_known) == (1, 8, 0, True)
    assert 0 < after.slot_seconds <= after.wall_seconds < 600
    assert 200 * 2**20 < after.memory_bytes < 2 * 2**30
    said = plans.as_dict(small)
    assert said["predicted"]["wall_seconds"] == pytest.approx(after.wall_seconds)
    assert all(cell["rests_on"] == "calibration" and cell["predicted"]["seconds"] > 0 for cell in said["cells"])
    known = Fit().calibration(small.to_do[0].cell)
    assert known.boot > 0.5 and known.rates.cell > 0 and known.rates.calls > 0
    assert len(list((store.home() / "cache" / "calibration").iterdir())) == 1


def test_a_calibration_that_cannot_be_made_says_why(small: plans.Plan, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    with pytest.raises(UserError, match="the calibration failed"):
        plans.calibrate(small)
