"""Which numbers pair the runs of a table, and rows with other seeds or fewer runs: each run counts, and a run without
a value is told."""

import math

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import ablate
from ablate.columns import Columns, choose
from ablate.table import read
from ablate.verdicts import Question
from contrastive.errors import UserError
from flows.cli import app
from tests.ablate.test_tables import frame, verdicts


def test_numbers_of_runs_pair_nothing_unless_asked():
    """Recipes list their runs by score under numbers; each row is compared with all its own runs."""
    table = frame(rows=3, seeds=4).rename(columns={"seed": "run"})
    table = table[(table["model"] != "m1") | (table["run"] < 3)]
    found = ablate.judge(table, baseline="base")
    assert "not paired: the column run only numbers the runs; --paired pairs equal numbers" in found.columns
    assert "Not paired: the column run only numbers the runs; --paired pairs equal numbers." in found.warnings
    assert {score.row.label: score.seeds for score in found.comparisons} == {"m1": 3, "m2": 4}
    assert verdicts(found)["m1"] == "better"
    asked = ablate.judge(table, baseline="base", paired=True)
    assert "paired by run" in asked.columns and verdicts(asked)["m1"] == "better"
    assert "paired by run" in ablate.judge(table, seed="run", baseline="base").columns
    with pytest.raises(UserError, match="--paired pairs runs by their numbers, but no two rows share any"):
        ablate.judge(table.drop(columns="run"), baseline="base", paired=True)


RUNS = (("run-{}", False), ("seed{}", True), ("s{}", False))


@pytest.mark.parametrize(("ending", "paired"), RUNS)
def test_only_what_is_called_a_seed_in_names_and_headings_is_one(ending, paired):
    table = frame(rows=2, seeds=4)
    ends = [ending.format(seed) for seed in table["seed"]]
    named = table.assign(model=table["model"] + "-" + ends).drop(columns="seed")
    wide = table.pivot(index="model", columns="seed", values="acc").reset_index()
    wide.columns = ["model", *(ending.format(seed) for seed in range(4))]
    for given in (named, wide):
        assert ("not paired: the column run number" not in ablate.judge(given, baseline="base").columns) == paired
    numbers = wide.set_axis(["model", 0, 1, 2, 3], axis=1)
    assert ablate.judge(numbers, baseline="base").results.study.paired is False


@pytest.mark.parametrize("column", ["seed", "run", "replicate"])
def test_runs_sorted_by_score_make_no_false_verdicts(column):
    """Three equal rows, five runs each, sorted within rows: 5 % of tables may find a difference; paired, 41 % did."""
    rng, wrong, tables = np.random.default_rng(5), 0, 80
    for _ in range(tables):
        lines = [(m, k, v) for m in ("base", "a", "b") for k, v in enumerate(sorted(rng.normal(10, 1, 5)))]
        found = ablate.judge(pd.DataFrame(lines, columns=["m", column, "points"]), baseline="base")
        wrong += bool({"better", "worse"} & {*verdicts(found).values()})
    assert wrong / tables <= 0.05 + 2 * (0.05 * 0.95 / tables) ** 0.5


def test_the_command_says_how_rows_were_compared_and_what_was_assumed(tmp_path, monkeypatch):
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path))
    table = tmp_path / "t.csv"
    frame(rows=2).rename(columns={"seed": "run", "acc": "zeta"}).to_csv(table, index=False)
    for options, said in (((), "not paired: the column run only numbers the runs"), (("--paired",), "paired by run")):
        done = CliRunner().invoke(app, ["report", "--from", str(table), "--baseline", "base", *options])
        assert done.exit_code == 0 and said in done.output, done.output
        assert "warning: zeta: higher is assumed to be better; --lower zeta reverses this." in done.output
    done = CliRunner().invoke(app, ["report", "--from", str(table), "--baseline", "base", "--lower", "zeta"])
    assert "assumed" not in done.output and "zeta (lower is better)" in done.output


def test_seeds_are_not_paired_if_runs_are_sorted():
    rng = np.random.default_rng(0)
    for signs, seeds, said in (((1, 1), range(3), "sorted"), ((-1, -1), range(1, 4), "sorted"),
                               ((1, -1), range(3), ""), ((1, 1), (0, 1, 7), ""), ((1, 1), range(2), ""),
                               ((1, 1), range(42, 47), "sorted"), ((-1, -1), (0, 10, 20, 30), "sorted"),
                               ((1, 1), (13, 42, 123, 2024), "")):  # fmt: skip
        lines = [
            (m, seed, sign * value)
            for m, sign in zip(("base", "a"), signs, strict=True)
            for seed, value in zip(seeds, sign * np.sort(sign * rng.normal(size=len(seeds))) * sign, strict=True)
        ]
        table = pd.DataFrame(lines, columns=["m", "seed", "points"])
        found = ablate.judge(table, baseline="base")
        assert ("sorted by score" in " ".join(found.warnings)) == bool(said), (signs, seeds)
        assert ablate.judge(table, baseline="base", paired=True).results.study.paired


def test_one_row_in_four_that_is_not_sorted_makes_no_pairs_of_the_others():
    rng = np.random.default_rng(1)
    values = [[0.3, 0.1, 0.5, 0.2, 0.4], *(np.sort(rng.normal(size=5)) for _ in range(3))]
    lines = [(f"row {m}", seed, value) for m, own in enumerate(values) for seed, value in enumerate(own)]
    for count, sorted_ in ((4, True), (2, False)):  # of two rows, one is no rule
        table = pd.DataFrame(lines[: 5 * count], columns=["m", "seed", "points"])
        assert ("sorted by score" in " ".join(ablate.judge(table, baseline="row 0").warnings)) == sorted_


def test_the_export_of_rows_that_are_not_paired_pairs_nothing(tmp_path):
    found = ablate.judge(frame().rename(columns={"seed": "run"}), baseline="base")
    found.report(tmp_path / "report")
    table, columns = choose(read(str(tmp_path / "report" / "results.csv"), ""), Columns((), ()))
    again = ablate.judge_table(table, columns, Question("base"), "")
    assert columns.pairing == "none" and again.results.study.paired is False
    pd.testing.assert_frame_equal(again.frame().drop(columns="section"), found.frame().drop(columns="section"))


SEEDS = {  # as submitters of a leaderboard choose them
    "base": [42, 1337, 314, 2025],
    "some shared": [42, 1337, 7],
    "none shared": [1, 2, 3, 4],
    "fewer": [42, 1337, 314],
    "the same": [42, 1337, 314, 2025],
    "one run": [9],
}
ABOVE = {"base": 0.0, "some shared": 0.02, "none shared": 0.03, "fewer": 0.05, "the same": 0.04, "one run": 0.0}


def of_submitters() -> pd.DataFrame:
    noise = iter(np.random.default_rng(0).normal(0, 0.003, 100))
    lines = [(name, seed, 0.7 + ABOVE[name] + next(noise)) for name, seeds in SEEDS.items() for seed in seeds]
    return pd.DataFrame(lines, columns=["model", "seed", "accuracy"])


def test_no_row_with_two_runs_is_left_out():
    found = ablate.judge(of_submitters(), baseline="base")
    assert verdicts(found) == dict.fromkeys([*SEEDS][1:-1], "better") | {"one run": "one seed"}
    lines = {score.row.label: line for section in found.sections for score, line in section.comparisons}
    assert [name for name, line in lines.items() if line.paired and line.tested] == ["some shared", "fewer", "the same"]
    values = of_submitters().pivot(index="seed", columns="model", values="accuracy")
    assert lines["fewer"].difference == pytest.approx((values["fewer"] - values["base"]).mean())  # of three seeds
    assert lines["none shared"].difference == pytest.approx(values["none shared"].mean() - values["base"].mean())


def test_the_page_says_how_each_row_was_compared(tmp_path):
    ablate.judge(of_submitters(), baseline="base").report(tmp_path / "report")
    text = (tmp_path / "report" / "README.md").read_text()
    assert "the difference is not that of the means above: some shared and fewer." in text
    assert "(Welch's t, Bonferroni): none shared." in text


@pytest.mark.parametrize("gone", [math.nan, math.inf])
def test_a_row_with_a_run_without_a_value_is_not_called_better_or_equivalent(gone: float):
    table = of_submitters()
    table.loc[(table["model"] == "fewer") & (table["seed"] == 314), "accuracy"] = gone
    found = ablate.judge(table, baseline="base")
    assert verdicts(found)["fewer"] == "undecided" and verdicts(found)["none shared"] == "better"
    (warning,) = found.warnings
    assert "fewer, seed 314: no value of accuracy" in warning and "row 14" in warning
    assert "A row with missing runs is not called better or equivalent." in warning
    assert verdicts(ablate.judge(table, baseline="base", lower="accuracy"))["fewer"] == "worse"  # it may be called so


def test_a_baseline_with_a_run_without_a_value_makes_nothing_worse_or_equivalent():
    table = of_submitters()
    table.loc[(table["model"] == "base") & (table["seed"] == 2025), "accuracy"] = math.nan
    assert verdicts(ablate.judge(table, baseline="base"))["fewer"] == "better"
    found = ablate.judge(table, baseline="base", lower="accuracy", margin=1.0)
    assert verdicts(found)["fewer"] == "undecided"


@pytest.mark.parametrize("again", [False, True])
def test_a_run_that_a_tracker_calls_failed_counts_unless_its_seed_was_run_again(again: bool):
    table = of_submitters().assign(state="finished")
    failed = {"model": "fewer", "seed": 314 if again else 2025, "accuracy": 0.9, "state": "crashed"}
    table = pd.concat([table, pd.DataFrame([failed])])
    found = ablate.judge(table, baseline="base")
    assert verdicts(found)["fewer"] == ("better" if again else "undecided")
    assert ("fewer, seed 2025: no value of accuracy" in "".join(found.warnings)) is not again
