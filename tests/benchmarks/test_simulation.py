"""The simulation of verdicts: what counts as wrong, and that its sizes of seconds run."""

import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import simulation
from benchmarks.simulated_worlds import ACCURACY, MORE_RIGHT, WORLDS, heavy_tails, right_or_wrong, two_modes
from benchmarks.simulation import Outcome, is_right, up_to
from reports.statistics import Measurements


def test_a_verdict_is_right_only_of_what_is_so():
    assert is_right("better", 0.1, 1) and is_right("worse", -0.1, 1) and is_right("equivalent", 0.9, 1)
    assert not is_right("better", 0.0, 1) and not is_right("worse", 0.1, 1) and not is_right("equivalent", -1.0, 1)
    truth, ends = np.array([0.0, 2.0]), np.array([[-1.0, 2.5], [1.0, 3.0]])
    undecided = Outcome(["undecided", "better"], *ends, unequal=False, truth=truth, margin=1.0, cells=6)
    assert not undecided.wrong and undecided.right == [False, True] and undecided.covered.tolist() == [True, False]
    assert Outcome(["better", "better"], *ends, unequal=False, truth=truth, margin=1.0, cells=6).wrong


@pytest.mark.parametrize("noise", [heavy_tails, two_modes])
def test_noise_of_other_worlds_is_in_the_same_units(noise):
    drawn = noise(np.random.default_rng(0), (400_000,))
    assert drawn.mean() == pytest.approx(0, abs=0.01) and drawn.std() == pytest.approx(1, abs=0.03)


def test_rows_are_right_as_often_as_their_world_says():
    right = np.stack([right_or_wrong(np.array([MORE_RIGHT]), 2, 500, np.random.default_rng(i)) for i in range(200)])
    assert right.mean((0, 2, 3)).tolist() == pytest.approx([ACCURACY, ACCURACY + MORE_RIGHT], abs=0.005)


def test_rows_that_have_stopped_have_no_further_seeds():
    part = up_to(Measurements(np.ones((3, 5))), np.array([4, 2, 3]))
    assert np.isfinite(part.values).sum(1).tolist() == [4, 2, 3] and part.values.shape == (3, 4)


def test_the_usual_tests_need_as_many_seeds_as_their_power_says():
    """One test of a difference of 1.41 standard deviations has power .8 at 6 seeds."""
    world = WORLDS["half are better by 2 sd"]
    cells = int(simulation.cells_by_t_and_holm(world, 2, 0.8))
    assert 2 * 5 <= cells <= 2 * 7
    assert simulation.cells_by_t_and_holm(world, 2, 1.01) == "> 128"


@pytest.mark.full
def test_it_runs_and_writes_its_table_as_it_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "simulated.md"
    monkeypatch.setattr(sys, "argv", ["simulation", "--quick", "--into", str(file), "--worlds", "nothing", "600 texts"])
    simulation.main()
    lines = file.read_text(encoding="utf-8").splitlines()
    assert "## 3 rows" in lines and sum(line.startswith("| nothing differs") for line in lines) == 4
    assert sum(line.startswith("| 600 texts") for line in lines) == 4
