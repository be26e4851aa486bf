"""The seed bank, studies drawn from it or simulated, and whether the committed quickstart agrees with the bank."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from benchmarks import resampled_studies as resampled
from benchmarks import seed_bank, simulation
from benchmarks.simulated_worlds import ACCURACY, MORE_RIGHT, WORLDS, heavy_tails, right_or_wrong, two_modes
from benchmarks.simulation import Outcome, is_right, up_to
from reports.statistics.decide import Measurements

ROOT = Path(__file__).parents[2]
FURTHER = ROOT / "benchmarks" / "quickstart_bank.npz"  # recipes of the quickstart that the seed bank lacks
QUICKSTART = ROOT / "reports/output/quickstart/comparisons.csv"
# A row of the quickstart, and its recipe in the banks; each is compared with cross-entropy on the last two blocks.
RECIPES = {
    "Four blocks": "ce · last 4 blocks, still below",
    "Head alone": "ce · head only, still below",
    "Six blocks": "ce · full",
    "LoRA, two blocks": "ce · LoRA r=8 in the last 2 blocks · encoder_lr=0.01",
    "R-Drop": "rdrop · two_stage · α=1",
    "SupCon, top-4 tokens": "ce+supcon · topk_tokens · k=4 · α=1",
    "SupCon on [CLS]": "ce+supcon · cls · α=1",
}


@pytest.mark.full
def test_the_quick_benchmark_writes_its_tables(tmp_path: Path):
    file = tmp_path / "decided.md"
    command = [sys.executable, "-m", "benchmarks.decision", "4", "--quick", "--into", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    text = file.read_text(encoding="utf-8")
    assert text.count("\n## ") == 4 and "| stops, at most 3 | `decide` |" in text and "nan" not in text


def test_the_bank_loads_and_is_saved_as_it_was(tmp_path: Path):
    bank = seed_bank.load()
    assert bank.right.shape == (8, 24, 6000) and bank.right.dtype == bool
    assert bank.recipes[0] == "ce" and bank.seeds == tuple(range(24)) and (bank.seconds > 0).all()
    further = seed_bank.load(FURTHER)
    assert further.seeds == bank.seeds and further.right.shape[1:] == bank.right.shape[1:]
    assert set(RECIPES.values()) < {*bank.recipes, *further.recipes}
    seed_bank.save(bank, tmp_path / "again.npz")
    again = seed_bank.load(tmp_path / "again.npz")
    assert (again.right == bank.right).all() and again.recipes == bank.recipes and again.seeds == bank.seeds
    assert (again.seconds == bank.seconds).all()


def test_what_counts_as_true_and_as_false():
    truth = resampled.Truth(np.array([0.02, -0.02, 0.001]), np.array([0.006, 0.006, 0.001]))
    said = [["better", "worse", "equivalent"], ["worse", *["undecided"] * 2], ["equivalent", "undecided", "worse"]]
    concluded = resampled.Conclusions(np.array(said), np.array([[2, 2, 2, 2]] * 3))
    assert concluded.true(truth).tolist() == [3, 0, 0]
    assert concluded.any_false(truth).tolist() == [False, True, True]
    assert concluded.any_false(truth, 2.0).tolist() == [False, True, False]
    assert concluded.undecided.tolist() == [0, 2, 1] and concluded.cells.tolist() == [8, 8, 8]


def test_plain_tests_are_those_of_scipy_with_holm():
    generator = np.random.default_rng(0)
    values = generator.standard_normal((50, 4, 6)) + np.array([0, 0, 2, 4])[:, None]
    said = resampled.by_t_and_holm(values, 5).verdicts
    for study, verdicts in zip(values[:, :, :5], said, strict=True):
        results = [stats.ttest_rel(row, study[0]) for row in study[1:]]
        expected, rejects = ["undecided"] * 3, True
        for rank, number in enumerate(np.argsort([result.pvalue for result in results])):
            rejects = rejects and results[number].pvalue <= 0.05 / (3 - rank)
            if rejects:
                expected[number] = "better" if results[number].statistic > 0 else "worse"
        assert verdicts.tolist() == expected


def test_rows_of_a_recipe_against_itself_share_no_seed():
    bank = seed_bank.load()
    marks = np.arange(24)[:, None] == np.arange(6000) % 24
    marked = seed_bank.Bank(np.stack([marks] * 8), bank.recipes, bank.seeds, bank.seconds)
    each = resampled.against_itself(marked, 3, 3, 8, np.random.default_rng(0))
    assert each.shape == (3, 8, resampled.TEXTS)
    assert (each.reshape(24, -1).sum(0) == 1).all()


def test_the_quickstart_agrees_with_the_truth_of_the_bank():
    bank, further = seed_bank.load(), seed_bank.load(FURTHER)
    recipes = (*bank.recipes, *further.recipes)
    both = seed_bank.Bank(
        np.concatenate([bank.right, further.right]),
        recipes,
        bank.seeds,
        np.concatenate([bank.seconds, further.seconds]),
    )
    truth = resampled.truth_of(both)
    frame = pd.read_csv(QUICKSTART, keep_default_na=False)
    compared = frame[(frame["value"] == "test.accuracy") & (frame["against"] != "")]
    assert set(compared["label"]) == set(RECIPES) and set(compared["against"]) == {"Two blocks"}
    for label, said in zip(compared["label"], compared["verdict"], strict=True):
        number = recipes.index(RECIPES[label]) - 1
        difference, error = truth.differences[number], truth.errors[number]
        within = abs(difference) < resampled.MARGIN + 2 * error
        agrees = {"better": difference > 0, "worse": difference < 0, "equivalent": within}.get(said, True)
        assert agrees, f"{label}: {said}, but truly {difference:+.4f} ± {error:.4f}"
    assert {"better", "worse", "equivalent"} <= set(compared["verdict"])


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
    # those that have stopped have no further seeds
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
    assert "## 3 rows" in lines and sum(line.startswith("| nothing differs |") for line in lines) == 5
    assert sum(line.startswith("| 600 texts") for line in lines) == 5
