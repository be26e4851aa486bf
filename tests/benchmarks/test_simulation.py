"""The simulator: its worlds, the usual tests beside ours, and whether the committed quickstart agrees with the bank."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from benchmarks import seed_bank, simulation, worlds
from benchmarks.simulation import Outcome, is_right, up_to
from benchmarks.worlds import (
    ACCURACY,
    MORE_RIGHT,
    TEXT_MARGIN,
    WORLDS,
    RealWorld,
    heavy_tails,
    right_or_wrong,
    two_modes,
)
from reports.statistics.decide import Measurements, text_parts

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


def test_rows_of_a_recipe_against_itself_share_no_seed(monkeypatch: pytest.MonkeyPatch):
    bank = seed_bank.load()
    marks = np.arange(24)[:, None] == np.arange(6000) % 24
    marked = seed_bank.Bank(np.stack([marks] * 8), bank.recipes, bank.seeds, bank.seconds)
    monkeypatch.setattr(worlds, "bank", lambda: marked)
    (study,) = RealWorld(alike=True).study(3, 8, np.random.default_rng(0))
    assert study.per_text is not None and study.per_text.shape == (3, 8, worlds.BANK_TEXTS)
    assert (study.per_text.reshape(24, -1).sum(0) == 1).all()


def test_the_quickstart_agrees_with_the_truth_of_the_bank():
    bank, further = seed_bank.load(), seed_bank.load(FURTHER)
    recipes, right = (*bank.recipes, *further.recipes), np.concatenate([bank.right, further.right])
    frame = pd.read_csv(QUICKSTART, keep_default_na=False)
    compared = frame[(frame["value"] == "test.accuracy") & (frame["against"] != "")]
    assert set(compared["label"]) == set(RECIPES) and set(compared["against"]) == {"Two blocks"}
    for label, verdict in zip(compared["label"], compared["verdict"], strict=True):
        pair = right[[recipes.index(RECIPES[label]), 0]]
        apart = pair[0].mean(1) - pair[1].mean(1)
        difference, error = apart.mean(), np.sqrt(apart.var(ddof=1) / len(apart) + text_parts(pair)[0])
        within = abs(difference) < TEXT_MARGIN + 2 * error
        agrees = {"better": difference > 0, "worse": difference < 0, "equivalent": within}.get(verdict, True)
        assert agrees, f"{label}: {verdict}, but truly {difference:+.4f} ± {error:.4f}"
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


def test_the_usual_verdicts_are_those_of_scipy_with_holm_and_of_two_one_sided_tests():
    apart = np.random.default_rng(0).standard_normal((50, 3, 8)) + np.array([0.0, 2.0, 4.0])[:, None]
    for study, verdicts in zip(apart, simulation.usual_verdicts(apart, 1.8), strict=True):
        zero, below, above = (
            [stats.ttest_1samp(row, popmean, alternative=side) for row in study]
            for popmean, side in ((0.0, "two-sided"), (-1.8, "greater"), (1.8, "less"))
        )
        expected, rejects = [""] * 3, True
        for rank, number in enumerate(np.argsort([result.pvalue for result in zero])):
            rejects = rejects and zero[number].pvalue <= 0.05 / (3 - rank)
            equal = max(below[number].pvalue, above[number].pvalue) < 0.05 / 2 / 3
            sign = "better" if zero[number].statistic > 0 else "worse"
            expected[number] = sign if rejects else "equivalent" if equal else "undecided"
        assert verdicts.tolist() == expected


def test_the_usual_tests_need_as_many_seeds_as_their_power_says():
    """One test of a difference of 1.41 standard deviations has power .8 at 6 seeds."""
    world = WORLDS["half are better by 2 sd"]
    cells = int(simulation.cells_by_usual_tests(world, 2, 0.8))
    assert 2 * 5 <= cells <= 2 * 7
    assert simulation.cells_by_usual_tests(world, 2, 1.01) == "> 128"


@pytest.mark.full
def test_it_runs_and_writes_its_table_as_it_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file, chosen = tmp_path / "simulated.md", ["nothing differs", "600 texts", "real: recipes"]
    monkeypatch.setattr(sys, "argv", ["simulation", "--quick", "--into", str(file), "--worlds", *chosen])
    simulation.main()
    lines = file.read_text(encoding="utf-8").splitlines()
    assert "## 3 rows" in lines
    for world in ("| nothing differs |", "| 600 texts", "| real: recipes"):
        assert sum(line.startswith(world) for line in lines) == 6
