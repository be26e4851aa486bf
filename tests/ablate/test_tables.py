"""`ablate.judge` and `ablate report --from`: tables of other programs, with their mistakes named by line."""

import csv
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import ablate
from ablate.columns import Columns, choose
from ablate.table import read
from ablate.verdicts import Question
from contrastive.errors import UserError
from flows.tables import report_table
from reports import export
from reports.looks import compare_section
from reports.statistics.decide import compare_samples
from reports.statistics.power import detectable_unpaired, needed_unpaired
from reports.study import Kind
from tests.reports.made import made

HEAD = "model,seed,acc\n"
BASE = "base,0,.80\nbase,1,.81\nbase,2,.79\n"


def test_a_rank_is_no_score():
    table = pd.DataFrame(
        {"model": list("aabb"), "seed": [0, 1, 0, 1], "Rank (UB)": [1, 2, 2, 1], "points": [3, 4, 5, 6.5]}
    )
    found = ablate.judge(table, baseline="a")
    assert found.results.scores.columns.tolist() == ["points"] and "not used: Rank (UB)" in found.columns
    with pytest.raises(UserError, match=r"--score COLUMN \(model, seed\)"):
        ablate.judge(table.drop(columns="points"))


def test_a_markdown_file_with_one_table_is_read(tmp_path):
    text = "# Results\n\n| model | seed | acc |\n|---|--:|--:|\n" + "".join(
        f"| {m} | {s} | 0.{v}{s} |\n" for m, v in (("a", 7), ("b", 8)) for s in range(3)
    )
    found = judged(tmp_path / "r.md", f"{text}\nWords after it, too.\n", "a")
    assert verdicts(found) == {"b": "better"}
    with pytest.raises(UserError, match="r.md has 2 tables"):
        judged(tmp_path / "r.md", f"{text}\n{text}", "a")


def judged(path: Path, text: str, baseline: str | None = None, **columns) -> ablate.Verdicts:
    path.write_text(text, encoding="utf-8")
    table, chosen = choose(read(str(path), ""), Columns(**{"row": (), "scores": ()} | columns))
    return ablate.judge_table(table, chosen, Question(baseline), "again")


def verdicts(judgement: ablate.Verdicts) -> dict[str, str]:
    return {score.row.label: score.verdict for score in judgement.comparisons}


def frame(rows: int = 3, seeds: int = 4, **scores) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    lines = [(f"m{i}" if i else "base", s) for i in range(rows) for s in range(seeds)]
    table = pd.DataFrame(lines, columns=["model", "seed"])
    return table.assign(acc=0.8 + 0.05 * (table["model"] == "m1") + rng.normal(0, 0.004, len(table)), **scores)


def test_every_format_gives_the_same_comparisons(tmp_path):
    table = frame()
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_csv(tmp_path / "t.tsv", index=False, sep="\t")
    table.to_json(tmp_path / "t.jsonl", orient="records", lines=True, double_precision=15)
    table.to_parquet(tmp_path / "t.parquet")
    (tmp_path / "semicolons.csv").write_text(table.to_csv(index=False, sep=";", decimal=","), encoding="utf-8")
    expected = ablate.judge(table, baseline="base").frame()
    assert expected["verdict"].tolist() == ["baseline", "better", expected["verdict"][2]]
    for path in sorted(tmp_path.iterdir()):
        given = choose(read(str(path), ""), Columns((), ()))
        pd.testing.assert_frame_equal(
            ablate.judge_table(*given, Question("base"), "").frame().drop(columns="section"),
            expected.drop(columns="section"),
        )


@pytest.mark.parametrize(
    ("table", "described"),
    [
        (HEAD + BASE, "rows by model; scores acc (higher is better); paired by seed"),
        ("m,s,val_loss\n" + BASE, "scores val_loss (lower is better); not paired: the column s only numbers the runs"),
        ("run,f1\nbase-seed0,.7\nbase-seed1,.8\nnew-seed0,.7\nnew-seed1,.9\n", "rows by run; scores f1 (higher"),
        (
            "model,mean,std,n\nbase,1,1,5\n",
            "rows by model; scores score (assumed: higher is better); deviations std, counts n",
        ),
        ("m,accuracy_mean,accuracy_std,n_seeds\nbase,.5,.1,5\n", "scores accuracy (higher is better); deviations accu"),
        (
            "m,seed,acc,best_step,size\na,0,.5,7,1.5\na,1,.6,9,1.5\nb,0,.5,8,2\nb,1,.7,8,2\n",
            "not used: best_step, size",
        ),
        ("m,seed 0,seed 1\na,.5,.6\nb,.7,.6\n", "rows by m; scores score (assumed: higher is better); paired by seed"),
        ("model,mean\nbase,.8\n", "rows by model; scores mean (assumed: higher is better); no shared seeds"),
        ("m,seed,acc\na,0,.5\na,1,.6\nb,2,.5\nb,3,.6\n", "no shared seeds: rows are not paired"),
        ("model,dataset,mean,std,n\na,x,1,1,5\na,y,1,1,5\nb,x,1,1,5\nb,y,1,1,5\n", "data sets by dataset"),
        ("m,lr,acc\na,.1,.5\na,.1,.6\nb,.2,.5\nb,.2,.7\n", "rows by m; scores acc (higher is better); no shared seeds"),
        (
            "m,b,acc\na,bs16,.5\na,bs32,.6\nb,bs16,.5\nb,bs32,.7\n",
            "rows by m, b; scores acc (higher is better); no shared seeds",
        ),
        (
            "m,lora_rank,loss_weight,seed,acc\n"
            + "".join(f"a,{r},{r / 9},{s},{s / 7 + r}\n" for r in (8, 16) for s in (0, 1)),
            "rows by m, lora_rank, loss_weight; scores acc (higher is better); paired by seed",
        ),
        (
            "m,lora_rank,seed,acc\n" + "".join(f"a{r},{r},{s},{s / 7 + r}\n" for r in (8, 16) for s in (0, 1)),
            "rows by m; scores acc (higher is better); paired by seed; not used: lora_rank",
        ),
        (
            "m,drop_path_rate,iou_threshold,seed,acc\n"
            + "".join(f"a{r},{r / 9},{r / 99},{s},{s / 7 + r}\n" for r in (8, 16) for s in (0, 1)),
            "rows by m; scores acc (higher is better); paired by seed; not used: drop_path_rate, iou_threshold",
        ),
        ("lr,seed,acc\n.1,0,.5\n.1,1,.6\n.2,0,.71\n.2,1,.72\n", "rows by lr; scores acc"),
        (
            "model,seed,metric,value\nbase,0,acc,.5\nbase,0,f1,.4\nbase,1,acc,.5\nbase,1,f1,.3\n",
            "scores acc (higher is be",
        ),
        ("model,seed,text_id,hit\n" + "".join(f"base,{s},{t},1\n" for s in (0, 1) for t in "ab"), "texts by text_id"),
    ],
)
def test_columns_are_guessed_and_told(tmp_path, table, described):
    path = tmp_path / "t.csv"
    path.write_text(table, encoding="utf-8")
    read_table, columns = choose(read(str(path), ""), Columns((), ()))
    label = ablate.verdicts.label_of({name: read_table.frame[name].iloc[0] for name in columns.row})
    assert described in ablate.judge_table(read_table, columns, Question(label), "").columns


MISTAKES = {
    HEAD + BASE + "new,0,good\n": "t.csv, line 5: acc is `good`, which is not a number",
    HEAD + BASE + "new,0,-999\n": "t.csv, line 5: acc is `-999`, which stands for a missing value; leave it empty",
    HEAD + BASE + "new,0,1e300\n": "t.csv, line 5: acc is `1e300`, too large to compare; write nan if the run diverged",
    HEAD + BASE + "new,0,.8\nnew,0,.9\n": "t.csv, line 5 and line 6: both are new, seed 0; remove one",
    HEAD + BASE + "new,zero,.8\n": "line 5: seed is `zero`, which is not a whole number",
    HEAD + BASE + ",0,.8\n": "line 5: model is empty",
    HEAD + BASE + "new,0\n": "line 5: 2 fields, but the header has 3",
    HEAD + BASE + 'new,"0,.8\n': "line 5: this row has an unclosed or misplaced quote",
    "model,model,acc\nbase,0,.8\n": "line 1: the column model is there twice",
    HEAD: "has no rows",
    "model,mean,n\nbase,.8,3\n": "the column n seems to count runs, but no column has their standard deviation; add",
    "model,mean,std\nbase,.8,.1\n": "mean with std, without the number of runs; add a column n with the number of runs",
    "model,mean,std,n\nbase,.8,.1,5\nnew,.9,-1,5\n": "line 3: std is `-1`; write a number",
    "a,b\n1,2\n3,4\n": "no column names the rows that are compared; say which: --row COLUMN",
    "model,seed,accuracy\na,0,.81\na,1,.8\nbase,0,83\nbase,1,84\n": "line 2 and line 5: one has accuracy as a fr",
    "model,params,acc,std,n\nbase,2,.8,.1,3\n": "which column is the mean of std",
    "model,seed\nbase,0\n": "no column of numbers is a score; say which: --score COLUMN",
    HEAD.replace("model", "recipe")
    + "a,0,.8\nb,0,.9\n": "name the row that all others are compared with: --baseline ROW",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_told_with_its_line(tmp_path, text):
    with pytest.raises(UserError, match=MISTAKES[text].replace("(", r"\(")):
        judged(tmp_path / "t.csv", text)


def test_names_that_do_not_exist_are_answered_with_the_nearest():
    with pytest.raises(UserError, match="no column modle; did you mean `model`"):
        ablate.judge(frame(), row="modle")
    with pytest.raises(UserError, match="no row `bse`; did you mean `base`"):
        ablate.judge(frame(), baseline="bse")
    with pytest.raises(UserError, match="no such score; did you mean `acc`"):
        ablate.judge(frame(), baseline="base", margin={"ac": 0.1})


def test_a_direction_that_is_assumed_is_said_everywhere(tmp_path):
    table = frame(rows=2).rename(columns={"acc": "zeta"})
    said = "zeta: higher is assumed to be better; --lower zeta reverses this."
    found = ablate.judge(table, baseline="base")
    page = found.report(tmp_path / "report")
    assert said in found.warnings and "zeta (assumed: higher is better)" in found.columns
    for path in (page, page.with_name("README.md")):
        assert said in path.read_text(encoding="utf-8")
    for given in ({"higher": "zeta"}, {"lower": "zeta"}):
        assert "assumed" not in " ".join(ablate.judge(table, baseline="base", **given).warnings)
    assert ablate.judge(frame(rows=2), baseline="base").warnings == []


@pytest.mark.parametrize("score", ["value", "score", "label", "row", "metric", "cell", "count", "status"])
def test_a_score_may_be_called_as_a_column_of_the_report(tmp_path, score):
    table = frame(rows=2).rename(columns={"acc": score})
    found = ablate.judge(table, row="model", seed="seed", score=score, baseline="base")
    assert found.report(tmp_path / "report").is_file()
    numbers = pd.read_csv(tmp_path / "report" / "results.csv")
    assert {*numbers["score"]} == {score} and numbers["value"].tolist() == pytest.approx(table[score].tolist())


def test_a_text_that_a_seed_lacks_stops_the_comparison():
    lines = [
        (m, s, t, (t + s) % 2) for m in ("base", "new") for s in (0, 1) for t in range(9) if (m, s, t) != ("new", 1, 4)
    ]
    found = ablate.judge(pd.DataFrame(lines, columns=["model", "seed", "text_id", "hit"]), baseline="base")
    assert verdicts(found) == {"new": "not comparable"} and "not measured on the same examples" in found.warnings[0]


def test_a_report_replaces_an_earlier_one_and_nothing_else(tmp_path):
    found = ablate.judge(frame(), baseline="base")
    for _ in range(2):
        assert found.report(tmp_path / "report").is_file()
    (tmp_path / "report" / "mine.txt").touch()
    with pytest.raises(UserError, match=re.escape("has other files (mine.txt); name a new folder")):
        found.report(tmp_path / "report")
    assert (tmp_path / "report" / "mine.txt").is_file()


def test_our_own_export_gives_the_same_bytes(tmp_path):
    values = {
        "base": {"test.accuracy": [0.81, 0.80, 0.83], "test.macro_f1": [0.70, 0.72, 0.71]},
        "better": {"test.accuracy": [0.85, 0.84, 0.86], "test.macro_f1": [0.75, 0.76, 0.74]},
        "same": {"test.accuracy": [0.81, 0.80, 0.82], "test.macro_f1": [0.71, 0.72, 0.70]},
    }
    section, results = made(values)
    kinds = {name: Kind(True, 100) for name in results.kinds}
    object.__setattr__(results, "kinds", kinds)
    export.write_csv(export.tidy(results), tmp_path / "results.csv")
    export.write_comparisons([compare_section(section, results)[1]], tmp_path)
    expected = (tmp_path / "comparisons.csv").read_bytes()
    table, columns = choose(read(str(tmp_path / "results.csv"), ""), Columns((), ()))
    ablate.judge_table(table, columns, Question("base"), "").report(tmp_path / "report")
    again = read(str(tmp_path / "report" / "results.csv"), "")
    assert choose(again, Columns((), ()))[1].seed == "seed"  # can be read again
    assert choose(again, Columns((), ("test.accuracy",)))[1].scores == ("test.accuracy",)
    with pytest.raises(UserError, match="did you mean `test.accuracy`"):
        choose(again, Columns((), ("test.acuracy",)))
    assert (tmp_path / "report" / "comparisons.csv").read_bytes().replace(b",results,", b",A section,") == expected


LABELS = ["=HYPERLINK(1)", "+x", "-x", "@x", "\tx", "'=x", "'x", "-5", "+1e3", "-inf", "x=y", "-"]


def test_no_spreadsheet_takes_a_label_for_a_formula_and_each_is_read_again(tmp_path):
    values = {label: [k + 0.1, k + 0.2, k + 0.4] for k, label in enumerate(["base", *LABELS])}
    lines = [(label, s, value) for label, own in values.items() for s, value in enumerate(own)]
    found = ablate.judge(pd.DataFrame(lines, columns=["m", "seed", "=acc"]), row="m", score="=acc", baseline="base")
    found.report(tmp_path / "report")
    written = ["'=HYPERLINK(1)", "'+x", "'-x", "'@x", "'\tx", "''=x", "'x", "-5", "+1e3", "-inf", "x=y", "'-"]
    for name in ("results.csv", "comparisons.csv"):
        with (tmp_path / "report" / name).open(encoding="utf-8", newline="") as file:
            labels = [line["label"] for line in csv.DictReader(file)]
        assert [*dict.fromkeys(labels)] == ["base", *written], name
    again_read = read(str(tmp_path / "report" / "results.csv"), "")
    again = ablate.judge_table(*choose(again_read, Columns((), ())), Question("base"), "")
    assert [row.label for row in again.results.study.sections[0].rows] == ["base", *LABELS]
    assert [score.value for score in again.comparisons] == ["=acc"] * len(LABELS)


def test_a_report_of_a_table_promises_nothing_that_only_our_runs_have(tmp_path):
    page = ablate.judge(frame(), baseline="base", name="runs.csv").report(tmp_path / "report")
    for text in (page.read_text(encoding="utf-8"), page.with_name("README.md").read_text(encoding="utf-8")):
        assert "m1 beats base" in text and "Read from runs.csv" in text
        for word in ("ablate run", "ablate cell", "scratch:bert", "training sample", "MLflow", "Hardware"):
            assert word not in text, word


def test_values_without_seeds_are_compared_by_welch_and_bonferroni():
    table = frame(rows=3, seeds=5).drop(columns="seed")
    found = ablate.judge(table, baseline="base")
    by_row = {name: part["acc"] for name, part in table.groupby("model")}
    for score in found.comparisons:
        expected = stats.ttest_ind(by_row[score.row.label], by_row["base"], equal_var=False)
        interval = expected.confidence_interval(1 - 0.05 / 2)
        assert score.comparison is not None
        assert score.comparison.p == pytest.approx(min(1, 2 * expected.pvalue), rel=0.02)
        assert score.comparison.half_width == pytest.approx((interval.high - interval.low) / 2, rel=0.01)
    assert "not paired" in found.columns


def test_means_deviations_and_counts_give_what_the_values_give(tmp_path):
    table = frame(rows=3, seeds=5).drop(columns="seed")
    means = table.groupby("model", sort=False)["acc"].agg(["mean", "std", "count"]).reset_index()
    by_values, by_means = (
        ablate.judge(t, baseline="base").frame() for t in (table, means.rename(columns={"mean": "acc"}))
    )
    columns = ["label", "seeds", "mean", "deviation", "difference", "difference_half_width", "p", "verdict"]
    pd.testing.assert_frame_equal(by_values[columns], by_means[columns])
    text = (
        ablate.judge(means, baseline="base").report(tmp_path / "r").with_name("README.md").read_text(encoding="utf-8")
    )
    assert "The rows are not paired" in text and "Each seed" not in text


def test_unpaired_errors_and_power():
    """In 2 000 studies without a difference at most 6 % find one; what is detectable is found in about 80 %."""
    rng = np.random.default_rng(0)
    wrong, found = 0, 0
    for _ in range(2000):
        values = rng.normal(0, [[1.0], [2.0], [1.0]], (3, 4))
        samples = [(float(v.mean()), float(v.std(ddof=1)), 4) for v in values]
        decided = [compare_samples(samples[row], samples[0], 2, 1.0) for row in (1, 2)]
        wrong += any(abs(line.difference) > line.half_width for line in decided)
    size = 1.0 * detectable_unpaired([compare_samples((0.0, 1.0, 8), (0.0, 1.0, 8), 1, 1.0)])
    for _ in range(1000):
        values = rng.normal([[size], [0.0]], 1.0, (2, 8))
        samples = [(float(v.mean()), float(v.std(ddof=1)), 8) for v in values]
        line = compare_samples(samples[0], samples[1], 1, 1.0)
        found += line.difference > line.half_width
    assert wrong / 2000 < 0.06 and 0.76 < found / 1000 < 0.86
    line = compare_samples((1.0, 1.0, 4), (0.0, 1.0, 4), 1, 1.0)
    needs = needed_unpaired(line, 1, None, 1.0).seeds
    assert needs is not None and line.half_width > 1.0
    enough = compare_samples((1.0, 1.0, needs), (0.0, 1.0, needs), 1, 1.0)
    assert enough.half_width < 1.0


def test_single_texts_narrow_what_is_known(tmp_path):
    rng = np.random.default_rng(3)
    lines = [
        (model, seed, text, int(rng.random() < 0.6 + 0.2 * (model == "new")))
        for model in ("base", "new") for seed in range(3) for text in range(200)
    ]  # fmt: skip
    found = ablate.judge(pd.DataFrame(lines, columns=["model", "seed", "text_id", "hit"]), baseline="base")
    (score,) = found.comparisons
    assert score.comparison is not None and score.comparison.by_text and score.verdict == "better"
    assert len(score.comparison.mcnemar) == 3
    single = pd.DataFrame([line for line in lines if line[1] == 0], columns=["model", "seed", "text_id", "hit"])
    assert verdicts(ablate.judge(single.drop(columns="seed"), baseline="base")) == {"new": "one seed"}


def test_a_margin_is_in_the_unit_of_the_table():
    table = frame(rows=2, seeds=3).assign(Accuracy=lambda f: 100 * f["acc"])
    for margin, verdict in ((1.0, "better"), (20.0, "equivalent")):
        (score,) = ablate.judge(table, score="Accuracy", baseline="base", margin=margin).comparisons
        assert (score.margin, score.verdict) == (margin / 100, verdict)


@pytest.mark.parametrize("scale", [1, 100])
def test_the_terminal_has_shares_in_points_as_the_page(tmp_path, monkeypatch, capsys, scale):
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path))
    rows = [
        ("base", 0, 0.812),
        ("base", 1, 0.807),
        ("base", 2, 0.81),
        ("new", 0, 0.842),
        ("new", 1, 0.838),
        ("new", 2, 0.839),
    ]
    lines = "".join(f"{name},{seed},{value * scale}\n" for name, seed, value in rows)
    (tmp_path / "t.csv").write_text("model,seed,accuracy\n" + lines, encoding="utf-8")
    report_table(
        str(tmp_path / "t.csv"), {"row": (), "score": (), "seed": None, "text": None, "data": None}, "base", *[()] * 3
    )
    told = capsys.readouterr().err
    assert "new, accuracy: better, +3.00 ± 0.25 points" in told and "accuracy 1 point;" in told


def test_numbers_as_spreadsheets_write_them(tmp_path):
    for text in ('m,seed,acc\nbase,0,"0,812"\nbase,1,"0,81"\n', "m;seed;acc\nbase;0;81,2 %\nbase;1;81,0 %\n",
                 "m\tseed\tacc\nbase\t0\t0,812\nbase\t1\t0,81\n"):  # fmt: skip
        path = tmp_path / ("t.tsv" if "\t" in text else "t.csv")
        path.write_text(text, encoding="utf-8")
        table, columns = choose(read(str(path), ""), Columns((), ()))
        line = ablate.judge_table(table, columns, Question("base"), "").frame().iloc[0]
        assert line["mean"] == pytest.approx(0.811)
    for text, values in (('m,loss\na,"80,123.4"\nb,"1,234"\n', ["80123.4", "1234"]),
                         ("m;loss\na;1.234,5\nb;-12.345.678,25\n", ["1234.5", "-12345678.25"]),
                         ("m;loss\na;0,8022\nb;1,234\n", ["0.8022", "1.234"])):  # fmt: skip
        (tmp_path / "t.csv").write_text(text, encoding="utf-8")
        assert read(str(tmp_path / "t.csv"), "").frame["loss"].tolist() == values


def test_the_values_behind_a_mean_are_not_made_up(tmp_path):
    table = pd.DataFrame([("base", 0.8, 0.01, 5), ("new", 0.9, 0.01, 5)], columns=["m", "f1", "std", "n"])
    ablate.judge(table, baseline="base").report(tmp_path / "r")
    assert pd.read_csv(tmp_path / "r" / "results.csv")["value"].isna().all()


def test_mlflow_runs_are_read_from_any_store(tmp_path):
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'm.db'}")
    experiment = client.create_experiment("tuning", artifact_location=tmp_path.as_uri())
    for model, lift in (("base", 0.0), ("big", 0.1)):
        for seed in range(3):
            run = client.create_run(experiment, run_name=f"{model}-{seed}").info.run_id
            for name, value in (("model", model), ("seed", seed), ("output_dir", f"out/{model}/{seed}"), ("epochs", 3)):
                client.log_param(run, name, value)
            client.log_metric(run, "eval_accuracy", 0.7 + lift + seed / 100)
            client.log_metric(run, "eval_accuracy", 0.8 + lift + (seed * 5 % 3) / 1000 + lift * seed / 100)
            client.set_terminated(run, "FINISHED")
    failed = client.create_run(experiment, run_name="failed").info.run_id
    client.log_metric(failed, "eval_accuracy", 0.1)
    client.set_terminated(failed, "FAILED")
    table, columns = choose(read("mlflow:tuning", f"sqlite:///{tmp_path / 'm.db'}"), Columns((), ()))
    assert replace(columns, notes=()) == Columns(("model",), ("eval_accuracy",), "seed")
    assert "1 failed run of no known row and seed" in columns.notes[0]
    assert verdicts(ablate.judge_table(table, columns, Question("base"), "")) == {"big": "better"}
    with pytest.raises(UserError, match="no experiment tunning; did you mean `tuning`"):
        read("mlflow:tunning", f"sqlite:///{tmp_path / 'm.db'}")


WANDB = ["Name", "State", "Notes", "User", "Tags", "Created", "Runtime", "Sweep", "model", "lr", "seed"]
WANDB += ["eval/accuracy", "eval/loss", "_wandb"]


def test_exports_of_wandb_are_read(tmp_path):
    """The table of runs, with the columns of exports of 2023 to 2026 in public repositories; the frame that W&B's
    documentation writes with its client; and the export of a chart, which has no runs."""
    lines, runs = [], []
    for model, gain in (("base", 0.0), ("new", 0.1)):
        for seed in range(3):
            name, score = f"lucky-{model}-{seed}", 0.8 + gain + (seed * 7 % 3) / 100 + gain * seed / 50
            run = (name, "finished", "-", "me", "", "2026-02-02T07:14:06.000Z", 20 + seed, "")
            lines.append([*run, model, 0.1, seed, score, 1 - score, ""])
            runs.append({"summary": {"_step": 9, "eval/accuracy": score, "_wandb": {"runtime": 4}},
                         "config": {"model": model, "seed": seed, "opt": {"lr": 0.1}}, "name": name})  # fmt: skip
    lines.append(["lucky-new-9", "crashed", *lines[-1][2:]])
    pd.DataFrame(lines, columns=WANDB).astype(str).to_csv(tmp_path / "runs.csv", index=False, quoting=csv.QUOTE_ALL)
    pd.DataFrame(runs).to_csv(tmp_path / "project.csv")
    for name, scores in (("runs.csv", ("eval/accuracy", "eval/loss")), ("project.csv", ("eval/accuracy",))):
        table, columns = choose(read(str(tmp_path / name), ""), Columns((), ()))
        assert (columns.row, columns.scores, columns.seed) == (("model",), scores, "seed"), name
        assert set(verdicts(ablate.judge_table(table, columns, Question("base"), "")).values()) == {"better"}
    (tmp_path / "chart.csv").write_text('"Step","a - loss","a - loss__MIN","a - loss__MAX"\n"0","1","1","1"\n')
    with pytest.raises(UserError, match="chart.csv is a chart that W&B exported; export the table of runs"):
        choose(read(str(tmp_path / "chart.csv"), ""), Columns((), ()))
    (tmp_path / "project.csv").write_text("name,config,summary\na,{},oops\n")
    with pytest.raises(UserError, match="project.csv, line 2: config and summary should be dicts"):
        read(str(tmp_path / "project.csv"), "")


def test_the_frame_of_search_runs_is_read_and_unfinished_runs_are_left_out():
    runs = pd.DataFrame([
        {"run_id": f"{o}{s}", "status": "FINISHED", "start_time": pd.Timestamp(2024, 1, 1, s), "params.optimizer": o,
         "params.seed": str(s), "metrics.acc": 0.8 + (o == "adam") * (0.1 + s / 500) + (s * 5 % 3) / 100,
         "tags.mlflow.runName": f"{o}-{s}"}
        for o in ("sgd", "adam") for s in range(3)
    ])  # fmt: skip
    failed = pd.concat([runs, runs[-1:].assign(status="FAILED", **{"metrics.acc": 0.1, "params.seed": "3"})])
    for table, verdict in ((runs, "better"), (failed, "undecided")):
        found = ablate.judge(table, baseline="sgd")
        assert found.columns == "rows by optimizer; scores acc (higher is better); paired by seed"
        assert verdicts(found) == {"adam": verdict}


def test_names_of_runs_are_no_rows_if_settings_are_repeated(tmp_path):
    runs = pd.DataFrame(
        [(f"run-{k}", "finished", "ab"[k % 2], k / 7) for k in range(6)], columns=["Name", "State", "m", "f1"]
    )
    assert choose(ablate.table.of_frame(runs, "t"), Columns((), ()))[1].row == ("m",)
    assert choose(ablate.table.of_frame(runs[:2], "t"), Columns((), ()))[1].row == ("m",)
    plain = runs.drop(columns="State").rename(columns={"Name": "recipe"})
    assert choose(ablate.table.of_frame(plain, "t"), Columns((), ()))[1].row == ("recipe",)


def test_the_index_of_pandas_is_no_score_and_may_be_names(tmp_path):
    for table, row in ((frame(), "model"), (frame().set_index("model").rename_axis(None), "index")):
        table.to_csv(tmp_path / "t.csv")
        chosen, columns = choose(read(str(tmp_path / "t.csv"), ""), Columns((), ()))
        assert (columns.row, columns.scores) == ((row,), ("acc",))
        assert verdicts(ablate.judge_table(chosen, columns, Question("base"), ""))["m1"] == "better"


@pytest.mark.filterwarnings("ignore")
def test_files_of_sentence_transformers_evaluators_are_read(tmp_path):
    from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator

    class Encoder:
        similarity_fn_name, model_card_data = (
            "cosine",
            type("Card", (), {"set_evaluation_metrics": lambda *a, **k: None})(),
        )

        def __init__(self, noise: float, seed: int):
            self.rng, self.noise = np.random.default_rng(seed), noise

        def encode(self, texts, **_):
            places = np.array([float(text) for text in texts])
            return np.stack([np.cos(places), np.sin(places)], 1) + self.noise * self.rng.normal(size=(len(texts), 2))

    pairs = np.random.default_rng(0).random((60, 2))
    evaluator = EmbeddingSimilarityEvaluator(
        *([str(x) for x in side] for side in pairs.T), [float(1 - abs(a - b)) for a, b in pairs], name="sts"
    )
    for model, noise in (("base", 0.3), ("clean", 0.02)):
        for seed in range(3):
            folder = tmp_path / f"{model}-seed{seed}" / "eval"
            folder.mkdir(parents=True)
            evaluator(Encoder(noise, seed), output_path=str(folder))
    table, columns = choose(read(f"sentence-transformers:{tmp_path}", ""), Columns((), ()))
    assert columns.seed == "seed" and "similarity_evaluation_sts.cosine_spearman" in columns.scores
    assert set(verdicts(ablate.judge_table(table, columns, Question("base"), "")).values()) == {"better"}


def test_folders_of_mteb_are_read(tmp_path):
    """mteb_result.json was written by mteb 2.26.24; here it has other names and scores."""
    written = json.loads(Path(__file__).with_name("mteb_result.json").read_text(encoding="utf-8"))
    for model, lift in (("base", 0.0), ("new", 0.1)):
        for seed in range(2):
            folder = tmp_path / f"{model}-seed{seed}" / "1a2b3c"
            folder.mkdir(parents=True)
            (folder / "model_meta.json").write_text('{"name": "x"}', encoding="utf-8")
            for task in ("STSBenchmark", "Banking77"):
                written["task_name"] = task
                written["scores"]["test"][0]["main_score"] = 0.7 + lift + seed / 1000 * (1 + lift)
                (folder / f"{task}.json").write_text(json.dumps(written), encoding="utf-8")
    _, columns = choose(read(f"mteb:{tmp_path}", ""), Columns((), ()))
    assert columns == Columns(("model",), ("Banking77", "STSBenchmark"), "seed")
    shutil.copytree(tmp_path / "new-seed0" / "1a2b3c", tmp_path / "new-seed0" / "4d5e6f")
    with pytest.raises(UserError, match="Banking77 of new-seed0 is there twice, such as for two revisions"):
        read(f"mteb:{tmp_path}", "")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="has no results of mteb"):
        read(f"mteb:{tmp_path / 'empty'}", "")


def test_runs_of_transformers_trainer_are_named_by_their_run_names():
    """As its MLflow callback logs them: no param tells the recipes apart, and names of runs end with the seed."""
    runs = [
        {"run_name": f"{row}-{seed}", "output_dir": f"out/{row}-{seed}", "fp16": "False", "seed": seed}
        | {"learning_rate": 0.1, "train_loss": seed / 7}
        | {"eval_f1": 0.8 + gain + (seed * 7 % 5) / 100, "eval_runtime": 2.5 + seed / 9}
        for row, gain in (("base", 0.0), ("new", 0.1))
        for seed in (1, 10, 100)
    ]  # fmt: skip
    verdicts = ablate.judge(pd.DataFrame(runs), baseline="base")
    assert verdicts.columns.startswith(
        "rows by run_name; scores eval_f1 (higher is better); paired by seed; not used: "
    )
    assert [score.row.label for score in verdicts.comparisons] == ["new"]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("m,seed,acc\na,,0.8\nb,1,0.9\na,1,0.7", {}, "line 2: seed is ``, which is not a whole number"),
        ("m,seed,acc\na,0,0.8\nb,0\0,0.9", {}, "line 3: seed is `0\\u0000`, which is not a whole number"),
        ("m,seed,acc\na,inf,0.8\nb,1,0.9\na,1,0.7", {}, "seed is `inf`, which is not a whole number"),
        ("m,mean,std,n\na,1,0.1,inf\nb,2,0.1,3", {}, "line 2: n is `inf`; write a whole number"),
        ("m,seed,acc\na,0,0.8\na,1,0.8", {"lower": ("ac",)}, "--lower ac: no such score; did you mean `acc`?"),
        ("m,seed,acc\na,0,0.8\na,1,0.8", {"lower": ("acc",), "higher": ("acc",)}, "is in --lower and in --higher"),
    ],
)
def test_more_mistakes_are_named(tmp_path, text, options, message):
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=re.escape(message)):
        table, columns = choose(read(str(tmp_path / "t.csv"), ""), Columns((), ()))
        ablate.judge_table(table, columns, Question("a", **options), "")


def test_frames_that_cannot_be_compared_are_answered():
    for given, settings, message in (
        ([1, 2], {}, "takes a pandas DataFrame, not a list"),
        (pd.DataFrame([["a", 0, 1.0, 2.0]], columns=["m", "seed", "x", "x"]), {}, "has the column x twice"),
        (frame(), {"baseline": "base", "margin": -1.0}, "margin is -1.0; give a number above 0"),
        (frame(), {"baseline": "base", "margin": "0.1"}, "margin is '0.1'; give a number above 0"),
        (frame(), {"baseline": "base", "margin": {"acc": None}}, "margin is None; give a number above 0"),
    ):
        with pytest.raises(UserError, match=message):
            ablate.judge(given, **settings)
    numbered = frame().set_axis(range(len(frame().columns)), axis=1)
    assert ablate.judge(numbered, row="0", seed="1", score="2", baseline="base").comparisons
    numbers = frame().replace({"model": {"base": 1, "m1": 2, "m2": 3}})
    assert verdicts(ablate.judge(numbers, row="model", baseline=1))["2"] == "better"
    grouped = frame().groupby(["model", "seed"]).agg(acc=("acc", "mean"))
    assert verdicts(ablate.judge(grouped, baseline="base"))["m1"] == "better"
    several = frame().groupby(["model", "seed"]).agg({"acc": ["mean"]})
    assert ablate.judge(several, seed="seed", score="acc mean", baseline="base").comparisons


def test_nested_values_and_broken_files_of_evaluators_are_answered(tmp_path):
    lines = [{"model": m, "seed": s, "acc": 0.5 + s / 9, "cfg": {"lr": [1, 2]}} for m in ("base", "b") for s in (0, 1)]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    for table in (read(str(tmp_path / "t.jsonl"), ""), ablate.table.of_frame(pd.DataFrame(lines), "t")):
        assert choose(table, Columns((), ()))[1] == Columns(("model",), ("acc",), "seed")
    (tmp_path / "m" / "eval").mkdir(parents=True)
    (tmp_path / "m" / "eval" / "sts_results.csv").write_text("epoch,steps,cosine\n0,1,bad\n", encoding="utf-8")
    with pytest.raises(UserError, match="sts_results.csv, last line: could not convert string to float: 'bad'"):
        read(f"sentence-transformers:{tmp_path}", "")
