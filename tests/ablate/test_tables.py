"""Tables of other programs: one line a run with named columns, and a message with the words to type for all else."""

import json
import math
import re

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import ablate
from ablate.table import READERS
from contrastive.errors import UserError
from flows.cli import app

GAIN = {"base": 0.0, "m1": 0.05, "m2": 0.0}


def frame(rows: int = 3, seeds: int = 4, scores: tuple[str, ...] = ("acc",)) -> pd.DataFrame:
    """Return runs of `base`, `m1` (better by 0.05) and `m2` (equal)."""
    rng = np.random.default_rng(0)
    lines = [
        {"model": model, "seed": seed} | {score: 0.7 + GAIN[model] + rng.normal(0, 0.004) for score in scores}
        for model in [*GAIN][:rows]
        for seed in range(seeds)
    ]
    return pd.DataFrame(lines)


def verdicts(judged: ablate.Verdicts) -> dict[str, str]:
    return {score.row.label: score.verdict for score in judged.comparisons}


def invoke(*words: object) -> str:
    done = CliRunner().invoke(app, ["report", "--from", *map(str, words)])
    return done.output if done.exception is None or done.exit_code == 0 else str(done.exception) + done.output


def test_one_run_a_row_is_not_said_to_be_paired():
    assert ablate.judge(frame(seeds=1).drop(columns="seed"), baseline="base").columns.endswith("; one run a row")


def test_a_frame_becomes_verdicts_a_page_and_a_frame(tmp_path):
    judged = ablate.judge(frame(), baseline="base")
    assert judged.columns == "rows by model; scores acc (higher is better); paired by seed"
    assert verdicts(judged)["m1"] == "better"
    difference = frame().pivot(index="seed", columns="model", values="acc")
    expected = (difference["m1"] - difference["base"]).mean()
    line = judged.frame().set_index("label").loc["m1"]
    assert line["difference"] == pytest.approx(expected)
    page = judged.report(tmp_path / "report")
    assert "Use m1: " in page.read_text() and str(judged).startswith("Use m1: ")
    judged.report(tmp_path / "report")  # again
    (tmp_path / "report" / "mine.txt").touch()
    with pytest.raises(UserError, match="has other files"):
        judged.report(tmp_path / "report")


@pytest.mark.parametrize("suffix", READERS)
def test_a_file_of_each_kind_is_read_by_the_command(tmp_path, monkeypatch, suffix):
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path))
    path = tmp_path / f"runs{suffix}"
    table = frame()
    if suffix == ".parquet":
        table.to_parquet(path)
    elif suffix == ".jsonl":
        table.to_json(path, orient="records", lines=True)
    else:
        table.to_csv(path, sep="\t" if suffix == ".tsv" else ",", index=False)
    output = invoke(path, "--baseline", "base")
    assert "12 runs; rows by model; scores acc (higher is better); paired by seed" in output
    assert "Use m1: +5" in output and "differences too small to matter: acc 1 point;" in output
    (page,) = (tmp_path / "reports" / "tables").glob("runs-*/README.md")
    assert "ablate" in page.read_text()


def test_spreadsheets_in_german_and_percent_are_read(tmp_path):
    lines = [f"{line.model};{line.seed};{100 * line.acc:.3f}%".replace(".", ",") for line in frame().itertuples()]
    path = tmp_path / "runs.csv"
    path.write_text("\n".join(["\ufeffmodel;Seed;accuracy", *lines, ""]), encoding="utf-8")
    from ablate.columns import Columns
    from ablate.table import read
    from ablate.verdicts import Question, judge_table

    judged = judge_table(read(str(path), ""), Columns(), Question("base"), "")
    assert verdicts(judged)["m1"] == "better"
    (score,) = [score for score in judged.comparisons if score.row.label == "m1"]
    assert score.mean == pytest.approx(0.75, abs=0.01) and score.margin == 0.01
    path.write_text("model;seed;accuracy\na;0;81,5\na;1;81.5\n")
    with pytest.raises(UserError, match=r"line 3: `81.5` has a decimal point, other numbers a comma"):
        read(str(path), "")


def test_what_a_user_names_is_taken(tmp_path):
    table = frame(scores=("f1", "loss")).rename(columns={"seed": "number"}).assign(kind="x", lr=0.1)
    judged = ablate.judge(table, row=["model", "lr"], seed="number", score="f1", baseline="base · lr=0.1")
    assert verdicts(judged)["m1 · lr=0.1"] == "better"
    assert judged.columns.endswith("paired by number; not used: loss, kind")
    several = ablate.judge(table.drop(columns="kind"), seed="number", baseline="base", margin={"f1": 0.2})
    found = {(score.row.label, score.value): score for score in several.comparisons}
    assert found["m1", "loss"].verdict == "worse"  # lower is better, by its name
    assert found["m1", "f1"].verdict == "equivalent" and found["m1", "f1"].margin == 0.2
    turned = ablate.judge(table, row="model", seed="number", score="loss", higher="loss", baseline="base")
    assert verdicts(turned)["m1"] == "better"


def test_data_sets_have_their_own_baseline():
    table = pd.concat([frame(rows=2).assign(dataset="a"), frame().assign(dataset="b")])
    judged = ablate.judge(table, baseline="base")
    assert {score.row.label: score.row.data for score in judged.comparisons} == {
        "m1 · a": "a",
        "m1 · b": "b",
        "m2 · b": "b",
    }
    alone = pd.concat([frame(), frame(rows=2)[4:].assign(model="m3")]).assign(task=lambda t: "x")
    assert verdicts(ablate.judge(alone, row="model", data="task", baseline="base"))["m3"] == "better"


def test_one_score_a_line_is_read_if_its_columns_are_named():
    table = frame(scores=("f1", "loss"))
    long = table.melt(["model", "seed"], var_name="metric", value_name="value")
    judged = ablate.judge(long, metric="metric", value="value", baseline="base")
    expected = ablate.judge(table, baseline="base")
    pd.testing.assert_frame_equal(judged.frame(), expected.frame())
    with pytest.raises(UserError, match="row 1 and row 13: both have the same model, seed, metric"):
        ablate.judge(long.assign(metric="f1"), metric="metric", value="value", baseline="base")
    with pytest.raises(UserError, match="--metric COLUMN --value COLUMN --seed COLUMN"):
        ablate.judge(long.drop(columns="seed"), metric="metric", value="value", baseline="base")


HOSTS = "h" + frame()["seed"].astype(str)
WORD = frame().astype({"acc": object}).replace({"acc": {frame()["acc"][3]: "n.c."}})
MIXED = frame().assign(acc=[0.7] * 4 + [75.0, 76, 75, 76] + [0.7] * 4).rename(columns={"acc": "accuracy"})
MESSAGES = [
    (frame().assign(host=HOSTS), r"2 columns may name the rows \(model, host\); .*--row model"),
    (frame().drop(columns="model"), "no column of words names the rows"),
    (frame().assign(acc="high"), "no column of numbers is a score|2 columns may name"),
    (frame(scores=tuple("abcdef")), r"6 columns of numbers may be scores .*--score a"),
    (frame(rows=2).assign(fold=0), r"folds of a cross-validation .*groupby\(\[.*--seed fold"),
    (pd.concat([frame(), frame()]), r'row 1 and row 13: both are base, seed 0; .*\["model", "seed"\], .*last\(\)'),
    (WORD, "row 4: acc is `n.c.`, which is not a number"),
    (frame().assign(seed=[*range(11), 0.5]), "row 12: seed is `0.5`, which is not a whole number"),
    (frame().assign(acc=[*range(11), 1e200]), "row 12: acc is `1e[+]?200`, too large"),
    (frame().assign(model=[*frame()["model"][:-1], ""]), "row 12: model is empty"),
    (frame().iloc[:0], "has no lines"),
    (MIXED, "as a fraction"),
    (frame().set_axis(["a", "a", "b"], axis=1), "has the column a twice"),
]  # fmt: skip


@pytest.mark.parametrize(("table", "message"), MESSAGES, ids=range(len(MESSAGES)))
def test_anything_else_is_answered_with_the_words_to_type(table, message):
    with pytest.raises(UserError) as refused:
        print(ablate.judge(table, baseline="base").columns)
    assert re.search(message, str(refused.value), re.DOTALL), refused.value


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--baseline", "bse"), "has no row `bse`; did you mean"),
        (("--baseline", "base", "--margin", "f1=0.1"), "--margin f1: no such score"),
        (("--baseline", "base", "--margin", "acc=x"), "write SCORE=SIZE"),
        (("--baseline", "base", "--lower", "acc", "--higher", "acc"), "in --lower and in --higher"),
        (("--baseline", "base", "--row", "modle"), "has no column modle; did you mean"),
        (("--baseline", "base", "--score", "acc", "--seed", "sed"), "has no column sed"),
        ((), "--baseline"),
    ],
)
def test_a_wrong_option_is_answered(tmp_path, monkeypatch, words, message):
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path))
    frame().replace("base", "first").to_csv(tmp_path / "t.csv", index=False)
    if words:
        frame().to_csv(tmp_path / "t.csv", index=False)
    assert message in invoke(tmp_path / "t.csv", *words).replace("\n", " ")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "", "has no lines"),
        ("t.csv", "model,seed,acc\na,0\n", "line 2: 2 fields, but the header has 3"),
        ("t.csv", "model,seed,seed\na,0,1\n", "the column seed is there twice"),
        ("t.csv", "model,,acc\na,0,1\n", "column 2 has no name"),
        ("t.jsonl", '{"model": "a"\n', "line 1: not JSON"),
        ("t.jsonl", "[1]\n", "line 1: expected an object"),
        ("t.parquet", "no", "cannot be read"),
        ("t.xlsx", "no", "ablate.judge(frame"),
        ("t.md", "| a |", "a table is a file .csv, .tsv, .parquet, .jsonl"),
    ],
)
def test_a_damaged_file_is_answered(tmp_path, monkeypatch, name, content, message):
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path))
    (tmp_path / name).write_text(content)
    assert message in invoke(tmp_path / name)


def test_the_index_of_pandas_and_constants_are_no_scores(tmp_path, monkeypatch):
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path))
    frame().assign(epoch=3, lr=0.1).to_csv(tmp_path / "t.csv")
    assert "scores acc (higher is better); paired by seed; not used: index, epoch, lr" in invoke(
        tmp_path / "t.csv", "--baseline", "base"
    )


def test_an_mlflow_experiment_is_read(tmp_path):
    import mlflow

    from ablate.columns import Columns
    from ablate.table import read
    from ablate.verdicts import Question, judge_table

    uri = f"sqlite:///{tmp_path}/mlflow.db"
    client = mlflow.MlflowClient(uri)
    experiment = client.create_experiment("theirs", artifact_location=str(tmp_path))
    for line in frame(rows=2, seeds=3).itertuples():
        run = client.create_run(experiment)
        for name, value in (("model", line.model), ("seed", line.seed), ("lr", 0.1)):
            client.log_param(run.info.run_id, name, value)
        failed = line.model == "m1" and line.seed == 2
        if not failed:
            client.log_metric(run.info.run_id, "acc", line.acc)
        client.set_terminated(run.info.run_id, "FAILED" if failed else "FINISHED")
    judged = judge_table(read("mlflow:theirs", uri), Columns(), Question("base"), "")
    assert judged.columns.startswith("rows by model; scores acc (higher is better); paired by seed")
    assert verdicts(judged)["m1"] == "undecided"  # it lacks a run
    assert "m1, seed 2: no value of acc" in " ".join(judged.warnings)
    with pytest.raises(UserError, match="MLflow has no experiment their"):
        read("mlflow:their", uri)


def test_names_of_rows_cannot_write_into_the_page(tmp_path):
    evil = "<script>alert(1)</script> | [x](http://y)"
    page = ablate.judge(frame().replace("m1", evil), baseline="base").report(tmp_path / "report")
    assert "<script>alert" not in page.read_text() and "<script>" not in page.with_name("README.md").read_text()


def test_numbers_of_runs_pair_nothing_unless_asked():
    """Recipes list their runs by score under numbers; each row is compared with all its own runs."""
    table = frame().rename(columns={"seed": "run"})
    table = table[(table["model"] != "m1") | (table["run"] < 3)]
    judged = ablate.judge(table, baseline="base")
    assert "Not paired: the column run only numbers the runs" in judged.warnings[0]
    assert judged.columns.endswith("not paired") and verdicts(judged)["m1"] == "better"
    assert {score.row.label: score.seeds for score in judged.comparisons} == {"m1": 3, "m2": 4}
    for asked in ({"paired": True}, {"seed": "run"}):
        assert "; paired by run" in ablate.judge(table, baseline="base", **asked).columns
    without = ablate.judge(table.drop(columns="run"), baseline="base")
    assert "each line of a row is taken for a run of its own" in without.warnings[0]
    with pytest.raises(UserError, match="--paired pairs runs by their seeds, but no two rows share any"):
        ablate.judge(table.drop(columns="run"), baseline="base", paired=True)


@pytest.mark.parametrize("column", ["seed", "run"])
def test_runs_sorted_by_score_make_no_false_verdicts(column):
    """Three equal rows, five runs each, sorted within rows: 5 % of tables may find a difference; paired, 41 % did."""
    rng, wrong, tables = np.random.default_rng(5), 0, 80
    for _ in range(tables):
        lines = [(m, k, v) for m in ("base", "a", "b") for k, v in enumerate(sorted(rng.normal(10, 1, 5)))]
        found = ablate.judge(pd.DataFrame(lines, columns=["m", column, "points"]), baseline="base")
        wrong += bool({"better", "worse"} & {*verdicts(found).values()})
    assert wrong / tables <= 0.05 + 2 * (0.05 * 0.95 / tables) ** 0.5


SORTED = [
    ((1, 1), range(3), True), ((-1, -1), range(1, 4), True), ((1, -1), range(3), False), ((1, 1), (0, 1, 7), False),
    ((1, 1), range(2), False), ((1, 1), range(42, 47), True), ((-1, -1), (0, 10, 20, 30), True),
    ((1, 1), (13, 42, 123, 2024), False),
]  # fmt: skip


@pytest.mark.parametrize(("signs", "seeds", "is_sorted"), SORTED)
def test_seeds_are_not_paired_if_runs_are_sorted(signs, seeds, is_sorted):
    rng = np.random.default_rng(0)
    lines = [
        (m, seed, sign * value)
        for m, sign in zip(("base", "a"), signs, strict=True)
        for seed, value in zip(seeds, np.sort(rng.normal(size=len(seeds))), strict=True)
    ]
    table = pd.DataFrame(lines, columns=["m", "seed", "points"])
    assert ("sorted by score" in " ".join(ablate.judge(table, baseline="base").warnings)) == is_sorted
    assert ablate.judge(table, baseline="base", paired=True).results.study.paired


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


def test_no_row_with_two_runs_is_left_out(tmp_path):
    judged = ablate.judge(of_submitters(), baseline="base")
    assert verdicts(judged) == dict.fromkeys([*SEEDS][1:-1], "better") | {"one run": "one seed"}
    lines = {score.row.label: score.comparison for score in judged.comparisons}
    assert [name for name, line in lines.items() if line.paired and line.tested] == ["some shared", "fewer", "the same"]
    values = of_submitters().pivot(index="seed", columns="model", values="accuracy")
    assert lines["fewer"].difference == pytest.approx((values["fewer"] - values["base"]).mean())  # of three seeds
    assert lines["none shared"].difference == pytest.approx(values["none shared"].mean() - values["base"].mean())
    judged.report(tmp_path / "report")
    text = (tmp_path / "report" / "README.md").read_text()
    assert "the difference is not that of the means above: some shared and fewer." in text
    assert "(Welch's t, Bonferroni): none shared." in text


@pytest.mark.parametrize("gone", [math.nan, math.inf])
def test_a_row_with_a_run_without_a_value_is_not_called_better_or_equivalent(gone: float):
    table = of_submitters()
    table.loc[(table["model"] == "fewer") & (table["seed"] == 314), "accuracy"] = gone
    judged = ablate.judge(table, baseline="base")
    assert verdicts(judged)["fewer"] == "undecided" and verdicts(judged)["none shared"] == "better"
    (warning,) = judged.warnings
    assert "fewer, seed 314: no value of accuracy" in warning and "row 14" in warning
    assert "A row with missing runs is not called better or equivalent." in warning
    assert verdicts(ablate.judge(table, baseline="base", lower="accuracy"))["fewer"] == "worse"  # it may be called so
    table = of_submitters()
    table.loc[(table["model"] == "base") & (table["seed"] == 2025), "accuracy"] = gone
    assert verdicts(ablate.judge(table, baseline="base"))["fewer"] == "better"
    assert verdicts(ablate.judge(table, baseline="base", lower="accuracy", margin=1.0))["fewer"] == "undecided"


@pytest.mark.parametrize("again", [False, True])
def test_a_run_that_a_tracker_calls_failed_counts_unless_its_seed_was_run_again(again: bool):
    table = of_submitters().assign(state="finished")
    failed = {"model": "fewer", "seed": 314 if again else 2025, "accuracy": 0.9, "state": "crashed"}
    waiting = {"model": "fewer", "seed": 5, "accuracy": 0.9, "state": "running"}
    judged = ablate.judge(pd.concat([table, pd.DataFrame([failed, waiting])]), baseline="base")
    assert verdicts(judged)["fewer"] == ("better" if again else "undecided")
    assert ("fewer, seed 2025: no value of accuracy" in "".join(judged.warnings)) is not again
    assert "Left out, as their runs did not finish (state running): 1 of the lines." in judged.warnings


def test_a_run_of_which_one_score_a_line_is_read_has_failed_where_one_of_its_lines_has():
    long = frame().melt(["model", "seed"], var_name="metric", value_name="value")
    long = pd.concat([long, long.assign(metric="f1")])
    table = long.assign(state="finished")
    of_run = (table["model"] == "m1") & (table["seed"] == table["seed"].max())
    table.loc[of_run & (table["metric"] == "f1"), "state"] = "crashed"
    named = {"metric": "metric", "value": "value", "baseline": "base"}
    whole, broken = (ablate.judge(each, **named) for each in (long, table))
    assert "m1, seed" in "".join(broken.warnings) and not whole.warnings
    assert verdicts(whole)["m1"] == "better" and verdicts(broken)["m1"] == "undecided"


@pytest.mark.parametrize("name", ["success", "Failed", "exit_code", "run_state"])
def test_a_column_that_may_say_which_runs_failed_is_asked_for_as_state(name: str):
    table = frame().assign(**{name: [0] * len(frame())})
    with pytest.raises(UserError, match=f"{name} may say which runs failed; .*`state`"):
        ablate.judge(table, baseline="base")
    assert verdicts(ablate.judge(table, baseline="base", row="model", score=["acc", name]))  # named, it is a score


def test_steps_of_one_training_are_no_runs():
    curve = pd.concat([frame().assign(step=step) for step in range(3)])
    with pytest.raises(UserError, match=r"differ in step, so they are steps of one training"):
        ablate.judge(curve, baseline="base")
    alone = curve[curve["seed"] == curve["seed"].min()].drop(columns="seed")
    with pytest.raises(UserError, match=r'groupby\(\["model"\], as_index=False\)'):
        ablate.judge(alone, baseline="base")
    last = frame().assign(step=3)
    assert verdicts(ablate.judge(last, baseline="base")) == verdicts(ablate.judge(frame(), baseline="base"))


def test_unused_columns_that_differ_are_named_and_the_first_score_is_one_that_is_known():
    table = frame()
    table.insert(1, "zeta", np.arange(len(table)) * 0.37 % 1)
    judged = ablate.judge(table.assign(lr=[0.1 * (m == "m1") for m in table["model"]]), baseline="base")
    assert "Columns that were not used differ between the runs: lr." in judged.warnings
    assert next(iter(judged.frame()["value"])) == "acc"


def test_an_unknown_direction_is_assumed_and_said():
    judged = ablate.judge(frame().rename(columns={"acc": "zeta"}), baseline="base")
    assert judged.warnings == ["zeta: higher is assumed to be better; --lower zeta reverses this."]
    assert (
        verdicts(ablate.judge(frame().rename(columns={"acc": "zeta"}), baseline="base", lower="zeta"))["m1"] == "worse"
    )


def test_our_own_results_can_be_read_again(tmp_path):
    judged = ablate.judge(frame(), baseline="base")
    judged.report(tmp_path / "report")
    table = pd.read_csv(tmp_path / "report" / "results.csv")
    again = ablate.judge(table, row="label", seed="seed", metric="score", value="value", baseline="base")
    pd.testing.assert_frame_equal(again.frame().drop(columns="section"), judged.frame().drop(columns="section"))
    assert json.loads(json.dumps(verdicts(again))) == verdicts(judged)
