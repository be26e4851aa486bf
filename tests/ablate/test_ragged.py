"""Tables whose rows have other seeds, or fewer runs: each run counts, and a run without a value is told."""

import math

import numpy as np
import pandas as pd
import pytest

import ablate

SEEDS = {  # as submitters of a leaderboard choose them
    "base": [42, 1337, 314, 2025],
    "some shared": [42, 1337, 7],
    "none shared": [1, 2, 3, 4],
    "fewer": [42, 1337, 314],
    "the same": [42, 1337, 314, 2025],
    "one run": [9],
}
ABOVE = {"base": 0.0, "some shared": 0.02, "none shared": 0.03, "fewer": 0.05, "the same": 0.04, "one run": 0.0}


def frame() -> pd.DataFrame:
    noise = iter(np.random.default_rng(0).normal(0, 0.003, 100))
    lines = [(name, seed, 0.7 + ABOVE[name] + next(noise)) for name, seeds in SEEDS.items() for seed in seeds]
    return pd.DataFrame(lines, columns=["model", "seed", "accuracy"])


def verdicts(found: ablate.Verdicts) -> dict[str, str]:
    return {score.row.label: score.verdict for score in found.comparisons}


def test_no_row_with_two_runs_is_left_out():
    found = ablate.judge(frame(), baseline="base")
    assert verdicts(found) == dict.fromkeys([*SEEDS][1:-1], "better") | {"one run": "one seed"}
    lines = {score.row.label: line for section in found.sections for score, line in section.comparisons}
    assert [name for name, line in lines.items() if line.paired and line.tested] == ["some shared", "fewer", "the same"]
    values = frame().pivot(index="seed", columns="model", values="accuracy")
    assert lines["fewer"].difference == pytest.approx((values["fewer"] - values["base"]).mean())  # of three seeds
    assert lines["none shared"].difference == pytest.approx(values["none shared"].mean() - values["base"].mean())


def test_the_page_says_how_each_row_was_compared(tmp_path):
    ablate.judge(frame(), baseline="base").report(tmp_path / "report")
    text = (tmp_path / "report" / "README.md").read_text()
    assert "Compared at the seeds that both rows have, so not by the means above: some shared and fewer." in text
    assert "not paired: Welch's t, by Bonferroni): none shared." in text


@pytest.mark.parametrize("gone", [math.nan, math.inf])
def test_a_row_with_a_run_without_a_value_is_not_called_better_or_equivalent(gone: float):
    table = frame()
    table.loc[(table["model"] == "fewer") & (table["seed"] == 314), "accuracy"] = gone
    found = ablate.judge(table, baseline="base")
    assert verdicts(found)["fewer"] == "undecided" and verdicts(found)["none shared"] == "better"
    (warning,) = found.warnings
    assert "fewer, seed 314: no value of accuracy" in warning and "row 14" in warning
    assert "A row that lacks a run is not called better or equivalent." in warning
    assert verdicts(ablate.judge(table, baseline="base", lower="accuracy"))["fewer"] == "worse"  # it may be called so


def test_a_baseline_with_a_run_without_a_value_makes_nothing_worse_or_equivalent():
    table = frame()
    table.loc[(table["model"] == "base") & (table["seed"] == 2025), "accuracy"] = math.nan
    assert verdicts(ablate.judge(table, baseline="base"))["fewer"] == "better"
    found = ablate.judge(table, baseline="base", lower="accuracy", margin=1.0)
    assert verdicts(found)["fewer"] == "undecided"


@pytest.mark.parametrize("again", [False, True])
def test_a_run_that_a_tracker_calls_failed_counts_unless_its_seed_was_run_again(again: bool):
    table = frame().assign(state="finished")
    failed = {"model": "fewer", "seed": 314 if again else 2025, "accuracy": 0.9, "state": "crashed"}
    table = pd.concat([table, pd.DataFrame([failed])])
    found = ablate.judge(table, baseline="base")
    assert verdicts(found)["fewer"] == ("better" if again else "undecided")
    assert ("fewer, seed 2025: no value of accuracy" in "".join(found.warnings)) is not again
