"""The rules of columns in their order, each with a table of its own; and files that tools and spreadsheets write."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import ablate
from ablate.columns import RULES, Columns, choose
from ablate.json_tables import frame_of
from ablate.names import NUMBER, number_of
from ablate.table import Table, of_frame, read, usual_form
from ablate.verdicts import Question
from contrastive.errors import UserError
from flows.cli import app
from tests.ablate.test_tables import frame, verdicts

UNKNOWN = Columns((), ())


def table(text: str) -> Table:
    head, *lines = (line.split(",") for line in text.split())
    return of_frame(pd.DataFrame(lines, columns=head), "t.csv")


def written(tmp_path, text: str | bytes, name: str = "t.csv") -> Table:
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return read(str(tmp_path / name), "")


ORDER = {
    "without_unfinished": ("m,state,f1 a,finished,1 a,failed,", UNKNOWN, UNKNOWN),
    "marks_beside_numbers": ("m,f1 a,1*", UNKNOWN, Columns((), (), notes=("`1*` was read as 1",))),
    "scores_below_each_other": ("m,metric,value a,f1,1", UNKNOWN, UNKNOWN),
    "seeds_beside_each_other": ("m,seed0,seed1 a,1,2", UNKNOWN, UNKNOWN),
    "names_exist": ("m,f1 a,1", Columns(("m",), ("f1",)), Columns(("m",), ("f1",))),
    "seeds_texts_and_data_by_name": (
        "m,Seed,Text_ID,dataset a,1,b,c",
        UNKNOWN,
        Columns((), (), "Seed", "Text_ID", "dataset"),
    ),
    "folds_of_each_seed": (
        "m,seed,fold,f1 a,1,0,1 a,1,1,1 a,2,0,1",
        Columns((), (), "seed"),
        Columns((), (), "seed", fold="fold", folds=2, reading={"folds": {"count": 2}}),
    ),
    "last_step_of_each_run": (
        "m,seed,step,f1 a,0,1,2 a,0,2,3",
        Columns((), (), "seed"),
        Columns((), (), "seed", notes=("the last line of each run is used (step 2)",)),
    ),
    "means_in_cells": (
        "m,f1,n a,1±.1,2",
        UNKNOWN,
        Columns(("m",), ("f1",), NUMBER, deviations=("±",), count="n",
                notes=("± was read as the standard deviation over runs",)),
    ),
    "means_in_columns": (
        "m,f1_mean,f1_std,n a,1,.1,2",
        UNKNOWN,
        Columns(("m",), ("f1",), NUMBER, deviations=("f1_std",), count="n"),
    ),
    "seeds_in_names": ("m,f1 a-seed3,1", UNKNOWN, Columns((), (), "seed")),
    "one_seed_of_texts": ("m,text,f1 a,x,1", Columns((), (), text="text"), Columns((), (), "seed", "text")),
    "rows_by_words_and_settings": (
        "m,lr,seed,f1 a,.1,0,1 a,.2,0,1 a,.1,1,2 a,.2,1,3",
        Columns((), (), "seed"),
        Columns(("m", "lr"), (), "seed"),
    ),
    "scores_by_name_or_values": (
        "m,f1,steps_run a,.5,7",
        Columns(("m",), ()),
        Columns(("m",), ("f1",), unused=("steps_run",)),
    ),
    "shared_seeds": ("m,seed,f1 a,0,1 a,1,1 b,2,1", Columns(("m",), ("f1",), "seed"), Columns(("m",), ("f1",))),
}  # fmt: skip


def test_every_rule_has_a_test_in_the_order_of_the_rules():
    assert [rule.__name__ for rule in RULES] == [*ORDER]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_rule_adds_what_it_finds_and_leaves_what_is_known(rule):
    text, before, after = ORDER[rule.__name__]
    assert rule(table(text), before)[1] == after
    known = Columns(("m",), ("f1",), "seed", "text", "data")
    assert rule(table("m,f1,seed,text,data a,1,0,x,d"), known)[1] == known


CELLS = [
    "81.2 ± 0.5", "81.2±.5", "81.2 +/- 0.5", "81.2 (0.5)", "$81.2 \\pm 0.5$", "$\\mathbf{81.2} \\pm 0.5$",
    "\\textbf{81.2 $\\pm$ 0.5}", "$81.2_{\\pm 0.5}$", "**81.2** ± 0.5", "81.2% ± 0.5%", "81.2\\% $\\pm$ 0.5\\%",
]  # fmt: skip


@pytest.mark.parametrize("cell", CELLS)
def test_means_and_deviations_in_cells_give_what_columns_give(cell):
    cells = pd.DataFrame([("base", cell, "70.1 ± 0.3", 5), ("new", "83.2 ± 0.4", "71 ± .3", 5)],
                         columns=["model", "accuracy", "f1", "seeds"])  # fmt: skip
    columns = pd.DataFrame([("base", 81.2, 0.5, 70.1, 0.3, 5), ("new", 83.2, 0.4, 71, 0.3, 5)],
                           columns=["model", "accuracy", "accuracy_std", "f1", "f1_std", "n"])  # fmt: skip
    found, expected = (ablate.judge(each, baseline="base") for each in (cells, columns))
    assert found.columns.endswith("deviations ±, counts seeds; ± was read as the standard deviation over runs")
    pd.testing.assert_frame_equal(found.frame(), expected.frame())
    (only,) = ablate.judge(cells, baseline="base", score="f1").comparisons
    assert only.value == "f1" and only.seeds == 5


@pytest.mark.parametrize("spread", ["ci95", "acc_sem"])
def test_a_score_that_is_named_is_read_without_what_is_no_standard_deviation(spread):
    given = table(f"m,acc,{spread} a,.1,.2 b,.3,.4")
    with pytest.raises(UserError, match="is no standard deviation over seeds.*say which columns are scores: --score"):
        choose(given, UNKNOWN)
    assert choose(given, Columns((), ("acc",)))[1] == Columns(("m",), ("acc",), unused=(spread,))


def test_eleven_scores_are_read_if_each_is_named():
    scores = [f"f{k}" for k in range(2, 13)]
    wide = frame().drop(columns="acc").assign(**{name: np.linspace(0, 1, 12) for name in scores})
    with pytest.raises(UserError, match="has 11 columns of numbers; say which are scores"):
        choose(of_frame(wide, "t"), UNKNOWN)
    assert choose(of_frame(wide, "t"), Columns((), tuple(scores)))[1].scores == tuple(scores)


@pytest.mark.parametrize(
    ("text", "row", "scores"),
    [
        ("Model,Average,ARC,MMLU a,70.5,60.1,50.2 b,71.5,61.1,51.2", ("Model",), ("Average", "ARC", "MMLU")),
        ("model,Avg a,70 b,71", ("model",), ("Avg",)),
        ("model,seed,Mean a,0,70 a,1,71 b,0,71 b,1,72", ("model",), ("Mean",)),
        ("m,seed,f1,f1_std a,0,.1,.1 a,1,.2,.1 b,0,.1,.1 b,1,.2,.1", ("m",), ("f1",)),
        ("trial_id,training_iteration,f1 a,1,.1 a,2,.2 b,1,.1 b,2,.3", ("trial_id",), ("f1",)),
        ("m,seed,eval_f1,acc,train_loss a,0,.1,.2,.3 a,1,.2,.3,.1", ("m",), ("eval_f1", "acc")),
    ],
)
def test_averages_and_scores_beside_eval_are_scores(text, row, scores):
    assert (lambda c: (c.row, c.scores))(choose(table(text), UNKNOWN)[1]) == (row, scores)


def test_trials_of_optuna_are_compared_by_their_params():
    """The frame of `study.trials_dataframe()`, by its documentation."""
    trials = [
        {"number": k, "value": 0.8 + lr + seed / 100 * (1 + lr), "datetime_start": pd.Timestamp(2026, 1, 1, k),
         "datetime_complete": pd.Timestamp(2026, 1, 1, k, 5), "duration": pd.Timedelta(minutes=5), "params_lr": lr,
         "params_optimizer": "adam", "params_seed": seed, "user_attrs_f1": 0.5 + k / 100, "state": "COMPLETE"}
        for k, (lr, seed) in enumerate((lr, seed) for lr in (0.1, 0.01) for seed in range(3))
    ]  # fmt: skip
    trials.append(trials[-1] | {"number": 6, "value": None, "params_seed": 3, "state": "PRUNED"})
    for frames in (pd.DataFrame(trials), pd.DataFrame(trials).astype(str)):
        read_table, columns = choose(usual_form(of_frame(frames, "t")), UNKNOWN)
        assert (columns.row, columns.scores, columns.seed) == (("lr", "optimizer"), ("value", "f1"), "seed")
        assert len(read_table.frame) == 6
    plain = pd.DataFrame(trials[:6]).drop(columns=["params_seed", "params_optimizer"])
    assert choose(usual_form(of_frame(plain, "t")), UNKNOWN)[1].row == ("lr",)


def test_a_parent_run_is_left_out():
    runs = [{"run_id": "p", "params.model": None, "params.seed": None, "metrics.acc": 0.9}] + [
        {"run_id": f"{m}{s}", "params.model": m, "params.seed": str(s), "metrics.acc": 0.8 + s / 100 + (m == "b") / 9,
         "tags.mlflow.parentRunId": "p"} for m in ("base", "b") for s in range(3)
    ]  # fmt: skip
    assert verdicts(ablate.judge(pd.DataFrame(runs), baseline="base")) == {"b": "better"}


@pytest.mark.parametrize("seeds", [(0, 10**20, -(10**30)), (2**63, 2**63 + 1, 2**64 - 1), (2**63, -1, 7)])
def test_seeds_of_any_size_are_written_and_read_again(tmp_path, seeds):
    given = table("model,seed,acc " + " ".join(f"{m},{s},{0.8 + k / 100 + lift * (1 + k / 100)}"
                     for m, lift in (("base", 0), ("new", 0.1)) for k, s in enumerate(seeds)))  # fmt: skip
    ablate.judge_table(*choose(given, UNKNOWN), Question("base"), "").report(tmp_path / "report")
    written = read(str(tmp_path / "report" / "results.csv"), "")
    again = ablate.judge_table(*choose(written, UNKNOWN), Question("base"), "")
    assert [row.seeds for row in again.results.study.sections[0].rows] == [[*seeds], [*seeds]]
    assert verdicts(again) == {"new": "better"} and "paired by seed" in again.columns


def test_exact_numbers():
    assert number_of("100000000000000000001") == 10**20 + 1 and number_of(10**400) == np.inf
    assert number_of("1e20") == number_of("100000000000000000000.0") == 1e20


def test_json_of_records_or_columns_is_read(tmp_path):
    expected = verdicts(ablate.judge(frame(), baseline="base"))
    for orient in ("records", "list", "dict"):
        read_table = written(tmp_path, json.dumps(frame().to_dict(orient)), "t.json")  # type: ignore[call-overload]
        assert verdicts(ablate.judge_table(*choose(read_table, UNKNOWN), Question("base"), "")) == expected


FOUR = [("a", 0, 0.7), ("a", 1, 0.8), ("b", 0, 0.6), ("b", 1, 0.5)]


@pytest.mark.parametrize(
    "content",
    [
        [{"m": "a", "f1": [0.7, 0.8]}, {"m": "b", "f1": [0.6, 0.5]}],
        {"commit": "c0ffee", "results": [{"m": "a", "f1": [0.7, 0.8], "f1_std": 0.1}, {"m": "b", "f1": [0.6, 0.5]}]},
        {"a": {"f1": [0.7, 0.8]}, "b": {"f1": [0.6, 0.5]}},
        {"a": [{"seed": 0, "f1": 0.7}, {"seed": 1, "f1": 0.8}], "b": [{"seed": 0, "f1": 0.6}, {"seed": 1, "f1": 0.5}]},
        {"a": {"0": {"f1": 0.7}, "1": {"f1": 0.8}}, "b": {"0": {"f1": 0.6}, "1": {"f1": 0.5}}},
        {"a": [0.7, 0.8], "b": [0.6, 0.5]},
        {"a": {"0": 0.7, "1": 0.8}, "b": {"0": 0.6, "1": 0.5}},
        {f"r{n}": {"model": m, "seed": s, "f1": v} for n, (m, s, v) in enumerate(FOUR)},
        {f"{n}": {"model": m, "seed": s, "f1": v} for n, (m, s, v) in enumerate(FOUR)},
    ],
)
def test_json_of_results_under_their_names_is_read(tmp_path, content):
    read_table, columns = choose(written(tmp_path, json.dumps(content), "t.json"), UNKNOWN)
    assert columns.row[0] in ("m", "row", "model") and columns.scores in (("f1",), ("score",))
    found = read_table.frame.groupby(columns.row[0])[columns.scores[0]].agg(list)
    assert dict(found) == {"a": [0.7, 0.8], "b": [0.6, 0.5]}
    assert columns.seed in ("seed", "run")


def test_json_of_data_sets_below_models_and_of_models_below_a_score(tmp_path):
    content = {"a": {"sst": {"f1": 0.7}, "qqp": {"f1": 0.8}}, "b": {"sst": {"f1": 0.6}, "qqp": {"f1": 0.5}}}
    read_table, columns = choose(written(tmp_path, json.dumps(content), "t.json"), UNKNOWN)
    assert columns.data == "dataset" and read_table.frame["row"].tolist() == ["a", "a", "b", "b"]
    content = {"f1": {"a": 0.7, "b": 0.6}, "recall": {"a": 0.8, "b": 0.5}}
    read_table, columns = choose(written(tmp_path, json.dumps(content), "t.json"), UNKNOWN)
    assert columns.scores == ("f1", "recall") and read_table.frame["row"].tolist() == ["a", "b"]


@pytest.mark.parametrize(
    "above", ["# by train.py, 1 November\n# data: SST\n", "# data: SST\n#m,seed,f1\n", "\n#m,seed,f1\n"]
)
def test_comments_above_the_header_are_left_out(tmp_path, above):
    header = "" if "#m" in above else "m,seed,f1\n"
    read_table = written(tmp_path, f"{above}{header}a,0,0.7\na,1,0.8\n")
    assert read_table.frame.to_dict("list") == {"m": ["a", "a"], "seed": ["0", "1"], "f1": ["0.7", "0.8"]}
    assert read_table.frame.index[0] == f"line {1 + (above + header).count(chr(10))}"


def test_units_are_read_off_and_columns_of_stars_are_not_used(tmp_path):
    text = "m;seed;latency;sig\na;0;12,0 ms;\na;1;13,5 ms;\nb;0;9,5ms;***\nb;1;;n.s.\n"
    read_table, columns = choose(written(tmp_path, text), UNKNOWN)
    assert read_table.frame["latency"].tolist() == ["12.0", "13.5", "9.5", ""] and "sig" not in read_table.frame
    assert columns.row == ("m",) and columns.notes == (
        "`12.0 ms` of latency was read as 12.0",
        "sig has marks of significance, and is not used",
    )


NESTED = {  # a table in JSON, and the frame that is read from it
    '{"a": {"loss": {"mean": 0.2, "std": 0.1, "n": 4}}, "b": {"loss": {"mean": 0.3, "std": 0.1, "n": 4}}}':
        {"row": ["a", "b"], "loss_mean": [0.2, 0.3], "loss_std": [0.1, 0.1], "n": [4, 4]},
    '{"a": {"seed13": {"acc": 0.8}, "seed42": {"acc": 0.7}, "mean": 0.75}, "b": {"seed13": {"acc": 0.6}}}':
        {"row": ["a", "a", "b"], "seed": [13, 42, 13], "acc": [0.8, 0.7, 0.6]},
    '{"seed_13": {"a": {"acc": 0.8}, "b": {"acc": 0.7}}, "seed_42": {"a": {"acc": 0.6}, "b": {"acc": 0.5}}}':
        {"seed": [13, 13, 42, 42], "row": ["a", "b", "a", "b"], "acc": [0.8, 0.7, 0.6, 0.5]},
    '{"a": {"acc": {"13": 0.8, "42": 0.7}, "loss": {"13": 0.1, "42": 0.2}}, "b": {"acc": {"13": 0.6}}}':
        {"row": ["a", "a", "b"], "seed": [13, 42, 13], "acc": [0.8, 0.7, 0.6], "loss": [0.1, 0.2, np.nan]},
    '{"a": {"acc": [0.8, 0.7], "seeds": [5, 6]}, "b": {"acc": [0.6], "seeds": [5]}}':
        {"row": ["a", "a", "b"], "acc": [0.8, 0.7, 0.6], "seed": [5, 6, 5]},
    '{"a": {"sst": {"13": {"acc": 0.8}}, "qqp": {"13": {"acc": 0.7}}}, "b": {"sst": {"0": {"acc": 0.6}}}}':
        {"row": ["a", "a", "b"], "dataset": ["sst", "qqp", "sst"], "seed": [13, 13, np.nan], "acc": [0.8, 0.7, 0.6],
         "run": [np.nan, np.nan, 0]},
    '[{"config": {"model": "a", "seed": 1}, "out": {"acc": 0.8}}, {"config": {"model": "b", "seed": 1}, "out": {}}]':
        {"config/model": ["a", "b"], "config/seed": [1, 1], "out/acc": [0.8, np.nan], "out": [np.nan, "{}"]},
    '{"models": {"a": {"acc": [0.8]}, "b": {"acc": [0.7]}}, "date": "today"}':
        {"row": ["a", "b"], "run": [0, 0], "acc": [0.8, 0.7]},
    '{"a": {"lr": 1, "results": [{"seed": 0, "acc": 0.8}]}, "b": {"lr": 1, "results": [{"seed": 0, "acc": 0.7}]}}':
        {"row": ["a", "b"], "seed": [0, 0], "acc": [0.8, 0.7]},
    '{"host": {}, "benchmarks": [{"name": "x", "run_type": "one", "s": 1}, {"name": "y", "run_type": "aggregate"}]}':
        {"name": ["x"], "run_type": ["one"], "s": [1]},
    '{"a": {"acc": 0.8, "file": "x"}, "b": {"acc": 0.7, "file": "y"}}':
        {"row": ["a", "b"], "acc": [0.8, 0.7], "file": ["x", "y"]},
}  # fmt: skip


@pytest.mark.parametrize("text", NESTED)
def test_what_the_levels_of_json_are_follows_from_their_keys(text):
    pd.testing.assert_frame_equal(
        frame_of(text).map(ablate.table.scalar), pd.DataFrame(NESTED[text]), check_like=True, check_dtype=False
    )


def test_equal_values_have_no_spread_whatever_their_mean_rounds_to():
    table = pd.DataFrame({"m": ["a"] * 3 + ["b"] * 3, "f1": [0.8062] * 3 + [0.7101] * 3})
    assert verdicts(ablate.judge(table, score="f1", baseline="a")) == {"b": "no spread"}


def test_a_column_of_a_star_or_none_is_a_setting(tmp_path):
    table = "m,aug,acc\na,-,0.8\na,*,0.84\na,-,0.81\na,*,0.85\n"
    _, columns = choose(written(tmp_path, table), UNKNOWN)
    assert columns.row == ("aug",) and not columns.notes


QUESTIONS = {
    "m,seed,latency\na,0,801\na,1,12 ms\n": "latency is `12 ms` and `801`; write all in the same unit",
    "m,seed,latency\na,0,12 ms\na,1,1.2 s\n": "latency is `12 ms` and `1.2 s`; write all in the same unit",
    "m,f1\na,81.2 ± 0.5\nb,80 ± 1\n": "f1 is `81.2 ± 0.5`, a mean ± standard deviation, without the number of runs; "
    "add a column n with the number of runs",
    "m,f1,n\na,81.2 ± 0.5,3\nb,80,3\n": "line 3: f1 is `80`; write it as 81.2 ± 0.5",
    "m,f1,n\na,81.2(5),3\nb,80.1(6),3\n": "line 2: f1 is `81.2(5)`; write it as 81.2 ± 0.5",
    "m,f1,n\na,81.2 ± 0.5,3\nb,80 ± -1,3\n": "line 3: f1 is `80 ± -1`; write it as 81.2 ± 0.5",
    "m,f1,n\na,81.2 ± 0.5,2.5\nb,,3\nc,-,3\n": "line 2: n is `2.5`; write a whole number of runs",
    "m;f1;n\na;81,2 ± 0,5;3\n": "line 2: f1 is `81,2 ± 0,5`; write it as 81.2 ± 0.5",
    "m,seed,f1\na,0,81.2 ± 0.5\na,1,80 ± 1\n": "f1 is `81.2 ± 0.5` beside the column seed; write the score of each",
    "m,step,f1\na,1,.1\na,2,.2\nb,1,.1\n": "several lines of a row with increasing step; if they are a log, add a "
    "column seed that names the run of each line; if each is a run of its own, remove the column step",
    "seed,bert,roberta\n0,1,2\n1,2,3\n": "if bert, roberta are the rows, with one line for each seed, write them below "
    'each other: frame.melt("seed", var_name="model", value_name="score") in pandas',
    "m;seed;f1\na;0;0.812\na;1;1,234\n": "line 3: f1 is `1,234`, but other lines have the decimal sign `.`; write all",
}  # fmt: skip


@pytest.mark.parametrize("text", QUESTIONS)
def test_what_is_not_known_is_asked_for(tmp_path, text):
    with pytest.raises(UserError, match=re.escape(QUESTIONS[text])):
        choose(written(tmp_path, text), UNKNOWN)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "m,seed,f1\na,0,1\n".encode("utf-16"), "looks like UTF-16; save it as UTF-8"),
        ("t.json", b'{"results": [1]}', 'expected a list of objects such as {"model": "a", "seed": 0'),
        ("t.json", b'{"model": [1], "f1": [1, 2]}', "cannot be read: All arrays must be of the same length"),
        (
            "t.json",
            b'{"a": {"f1": 1}, "b": {"f1": 2}, "c": 3, "date": ""}',
            "c is one number beside objects or lists; leave",
        ),
        ("t.json", b'{"a": {"f1": 0.8, "each": [0.7, 0.9]}, "b": {}}', "object 1: f1 is one number and each a list of"),
        (
            "t.json",
            b'{"a": {"x": {"y": {"acc": 1}}}, "b": {"x": {"y": {"acc": 1}}}}',
            "a and x is a third level of names",
        ),
        ("t.json", b'[{"m": "a", "f1": [1, 2], "acc": [1]}]', "object 1 has lists of different lengths (acc 1, f1 2)"),
        ("t.json", b"[1", "cannot be read: "),
        ("t.xlsx", b"PK", "install it, or save the table as CSV|cannot be read: "),
        ("t.ods", b"", "a table is a file .csv, .tsv, .parquet, .jsonl, .json, .xlsx, .md; save it as one of these"),
    ],
)
def test_files_that_are_no_tables_are_named(tmp_path, name, content, message):
    with pytest.raises(
        UserError, match=message.replace("[", "\\[").replace("{", "\\{").replace("(", "\\(").replace(")", "\\)")
    ):
        written(tmp_path, content, name)


def test_the_command_says_how_cells_were_read_and_counts_the_lines_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path))
    (tmp_path / "t.csv").write_text("m,acc,runs\nbase,81.2 ± 0.5,5\nnew,83.2 ± 0.5,5\n", encoding="utf-8")
    done = CliRunner().invoke(app, ["report", "--from", str(tmp_path / "t.csv")])
    assert done.exit_code == 0 and "t.csv: 2 lines; rows by m" in done.output
    assert "± was read as the standard deviation over runs" in done.output


def test_seeds_are_beside_each_other_whatever_other_columns_are_called(tmp_path):
    read_table, columns = choose(written(tmp_path, "m,score,seed 0,seed 1\na,x,1,2\nb,y,2,3\n"), UNKNOWN)
    assert columns.row == ("m", "score") and columns.seed == "seed"
    assert read_table.frame[columns.scores[0]].tolist() == ["1", "2", "2", "3"]


def test_dicts_of_settings_that_are_none_are_named(tmp_path):
    with pytest.raises(UserError, match="row 1: config and summary should be dicts"):
        written(tmp_path, '[{"config": 1, "summary": [1]}, {"config": 1, "summary": 2}]', "t.json")
