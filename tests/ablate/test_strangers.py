"""Tables and habits of strangers that were once read wrongly, or answered by a question that did not help."""

import io

import numpy as np
import pandas as pd
import pytest

import ablate
from ablate.columns import choose
from ablate.metric import number_in
from ablate.table import Columns, of_frame, read
from ablate.verdicts import Question
from contrastive.errors import UserError
from tests.ablate.test_tables import verdicts


def table(text: str, delimiter: str = ",") -> pd.DataFrame:
    return pd.read_csv(io.StringIO(text.replace(" / ", "\n")), sep=delimiter)


def test_a_crashed_run_whose_seed_is_in_its_name_counts_against_its_row():
    frame = table("run,acc,state / base-seed0,.8,finished / base-seed1,.81,finished / base-seed2,.8,finished / "
                  "new-seed0,.9,finished / new-seed1,.91,finished / new-seed2,.1,crashed")  # fmt: skip
    found = ablate.judge(frame, baseline="base")
    assert [*verdicts(found)] == ["new"] and "new, seed 2" in found.warnings[0]


def test_a_baseline_that_is_part_of_a_name_is_answered_by_the_options_to_type():
    frame = table("model,seed,split,acc / base,0,train,.9 / base,1,train,.91 / base,0,test,.8 / base,1,test,.81 / "
                  "new,0,train,.92 / new,1,train,.93 / new,0,test,.83 / new,1,test,.84")  # fmt: skip
    with pytest.raises(UserError, match="named by model, split together .* --row model, and what the others are"):
        ablate.judge(frame, baseline="base")
    found = ablate.judge(frame, row="model", data="split", baseline="base")
    assert {*verdicts(found)} == {"new · train", "new · test"}


@pytest.mark.parametrize(("score", "low", "high", "margin"), [
    ("residual", 8e-13, 2.7e-12, None), ("recall", 0.004, 0.008, 8e-5), ("zeta", 0.4, 0.8, None),
    ("acc", 0.4, 0.8, 0.01),
])  # fmt: skip
def test_a_usual_margin_fits_the_size_of_a_score_of_known_kind(score: str, low: float, high: float, margin: float):
    values = [low, 1.01 * low, 0.99 * low, high, 1.01 * high, 0.99 * high]
    frame = pd.DataFrame({"m": ["base"] * 3 + ["new"] * 3, "seed": [0, 1, 2] * 2, score: values})
    (found,) = ablate.judge(frame, baseline="base").comparisons
    assert found.verdict in ("better", "worse")
    assert found.margin == (None if margin is None else pytest.approx(margin, rel=0.02))
    assert "0.0000" not in str(ablate.judge(frame, baseline="base"))


def test_fractions_beside_percent_of_an_unknown_score_are_asked_about():
    frame = table("m,seed,MMLU / base,0,.45 / base,1,.46 / new,0,45.9 / new,1,46.8")
    with pytest.raises(UserError, match="one has MMLU as a fraction, the other in percent.*or say --higher MMLU"):
        ablate.judge(frame, baseline="base")
    assert len(ablate.judge(frame, baseline="base", higher="MMLU").comparisons) == 1


def test_means_beside_the_seeds_that_they_are_made_of_are_no_scores():
    frame = table("Model,seed 1,seed 2,seed 3,mean,std / base,.812,.806,.809,.809,.003 / new,.842,.838,.840,.840,.002")
    (found,) = ablate.judge(frame, baseline="base").comparisons
    assert found.value == "score" and found.verdict == "better"


@pytest.mark.parametrize("other", ["41.31", "41"])
def test_commas_between_thousands_are_read_if_the_file_has_decimal_points_and_asked_about_otherwise(other, tmp_path):
    path = tmp_path / "t.csv"
    lines = [
        f'{name},{seed},"{speed},05{seed}",{other}' for name, speed in (("base", 12), ("new", 15)) for seed in (1, 2)
    ]
    path.write_text("\n".join(["kernel,seed,tokens/s,latency", *lines]), encoding="utf-8")
    if other == "41":
        with pytest.raises(
            UserError, match="line 2: tokens/s is `12,051`, which may have a thousand or a decimal comma"
        ):
            read(str(path), "")
        return
    found = ablate.judge_table(*choose(read(str(path), ""), Columns((), ())), Question("base"), "")
    assert [each.mean for each in found.sections[0].scores if each.value == "tokens/s"] == [12051.5, 15051.5]


def test_a_run_that_stopped_early_is_told():
    lines = [(m, s, e, 0.5 + e / 30) for m in ("base", "new") for s in range(2) for e in range(1, 11)]
    frame = pd.DataFrame(lines, columns=["model", "seed", "epoch", "acc"])
    frame = frame[~((frame["model"] == "new") & (frame["seed"] == 1) & (frame["epoch"] > 3))]
    found = ablate.judge(frame, baseline="base")
    assert found.columns.endswith("the last line of each run is used (epoch 3 to 10)")
    assert "1 of 4 runs end earlier than the others (epoch 3 to 10)" in found.warnings[0]


@pytest.mark.parametrize(("text", "value"), [
    ("val_loss: 8,809", None), ("val_loss: 0,8809", None), ("val_loss: 8.5,9.1", 8.5), ("val_loss: 8, acc: 3", 8.0),
])  # fmt: skip
def test_a_number_that_a_pattern_cuts_at_a_comma_is_none(text: str, value: float | None):
    number, why = number_in(text, r"val_loss: ([-+0-9.e]+)")
    assert number == value and ("print a decimal point" in why) == (value is None)


UUIDS = [f"{k:08x}-94e1-11eb-b2c1-{k:012x}" for k in range(0x5F3A91C0, 0x5F3A91D0)]
STAMPS = {
    "folder": UUIDS, "version_of": [f"{k * 7919 % 2**28:07x}" for k in range(0x5F3A91, 0x5F3AA1)],
    "utc": [f"2021-05-11T12:{k:02}:07" for k in range(16)], "finished": [1712345600.25 + 61 * k for k in range(16)],
    "start_time": [1712345600 + k for k in range(16)], "day": pd.date_range("2026-01-01", periods=16),
    "at": [f"20240310_1212{k}" for k in range(10, 26)],
}  # fmt: skip


@pytest.mark.parametrize("seeds", [True, False])
@pytest.mark.parametrize("name", STAMPS)
def test_dates_and_ids_of_lines_name_no_rows_and_are_no_scores(name: str, seeds: bool):
    lines = [(m, d, s, 0.5 + s / 99 + (m == "new")) for m in ("base", "new") for d in "xy" for s in range(4)]
    frame = pd.DataFrame(lines, columns=["algorithm", "dataset", "seed", "C2ST"])
    frame.insert(0, name, STAMPS[name])
    columns = choose(of_frame(frame if seeds else frame.drop(columns="seed"), "t"), Columns((), ()))[1]
    assert (columns.row, columns.scores, columns.data) == (("algorithm",), ("C2ST",), "dataset")
    once = of_frame(frame[frame["seed"] == 0].drop(columns=["seed", "dataset"])[::2], "t")
    assert choose(once, Columns((), ()))[1].row == ("algorithm",)


def test_a_day_or_commit_of_a_row_is_harmless_and_a_size_is_a_setting():
    lines = [(m, day, size, s, 0.5 + s / 99) for m, day, size in (("base", "2024-03-10", 1300000000),
             ("new", "2024-03-11", 1500000000), ("new", "2024-03-11", 1800000000)) for s in range(3)]  # fmt: skip
    frame = pd.DataFrame(lines, columns=["model", "built", "tokens_seen", "seed", "acc"])
    columns = choose(of_frame(frame, "t"), Columns((), ()))[1]
    assert (columns.row, columns.scores) == (("model", "built", "tokens_seen"), ("acc",))


@pytest.mark.parametrize("step", ["timestep", "Total Timesteps"])
@pytest.mark.parametrize("task", ["task", "Env", "environment"])
def test_logs_of_agents_keep_the_last_step_and_are_compared_within_each_task(step: str, task: str):
    lines = [(a, e, s, t, s + t / 7 + (a == "sac")) for a in ("ppo", "sac") for e in ("Hopper", "Ant")
             for s in range(3) for t in (1000, 2000)]  # fmt: skip
    frame = pd.DataFrame(lines, columns=["algo", task, "seed", step, "episode_reward"])
    columns = choose(of_frame(frame, "t"), Columns((), ()))[1]
    assert (columns.row, columns.data) == (("algo",), task)
    assert columns.notes == (f"the last line of each run is used ({step} 2000)",)
    assert choose(of_frame(frame, "t"), Columns(("algo",), ()))[1].data == task


@pytest.mark.parametrize(("text", "row"), [
    ("task,seed,acc / a,0,.8 / a,1,.81 / b,0,.7 / b,1,.75", ("task",)),  # the only words
    ("id_of_run,task,seed,acc / r,a,0,.8 / s,a,1,.81 / t,b,0,.7 / u,b,1,.75", ("task",)),  # another on each line
    ("by,task,seed,acc / me,a,0,.8 / me,a,1,.81 / me,b,0,.7 / me,b,1,.75", ("task",)),  # the only words that vary
    ("m,task,seed,acc / m,a,0,.8 / m,a,1,.81 / n,b,0,.7 / n,b,1,.75", ("m", "task")),  # each row has its own
    ("m,task,seed,acc / m,a,0,.8 / m,a,1,.81 / n,a,0,.7 / n,a,1,.75", ("m",)),  # a single one
    ("m,task,seed,acc / m,1,0,.8 / m,1,1,.81 / m,2,0,.7 / m,2,1,.75", ("m", "task")),  # numbers beside one m
    ("m,num_steps,seed,acc / m,10,0,.8 / m,10,1,.81 / m,50,0,.7 / m,50,1,.75", ("m", "num_steps")),  # a setting
])  # fmt: skip
def test_tasks_that_name_rows_are_no_data_sets(text: str, row: tuple[str, ...]):
    columns = choose(of_frame(table(text), "t"), Columns((), ()))[1]
    assert (columns.row, columns.data) == (row, None)


@pytest.mark.parametrize("seeds", [("seed-one", "seed-two"), ("a", "b")])
def test_seeds_of_words_are_answered_by_what_to_type(seeds: tuple[str, str]):
    frame = table("m,seed,acc / base,0,.8 / base,1,.81 / new,0,.9 / new,1,.91").replace(
        {"seed": dict(enumerate(seeds))}
    )
    what = f"table, row 1: seed is `{seeds[0]}`, which is not a whole number; if .* --seed seed; else write .*COLUMN$"
    with pytest.raises(UserError, match=what):
        ablate.judge(frame, baseline="base")


MARKED = ["39.84*", "39.84†", "39.84 ‡", "**39.84**", "**39.84**†", "39.84%*", "39.84**"]


@pytest.mark.parametrize("cell", MARKED)
def test_footnote_marks_and_bold_are_read_off_numbers(cell: str):
    frame = table("model,seed,acc / base,0,38 / base,1,38.5 / new,0,x / new,1,40.2 / new,2,-")
    frame["acc"] = frame["acc"].replace("x", cell)
    found = ablate.judge(frame, baseline="base")
    assert found.sections[0].scores[1].mean == pytest.approx((0.3984 + 0.402) / 2)
    assert f"`{cell}` was read as {cell.strip('*†‡ ')}" in found.columns


@pytest.mark.parametrize("other", ["OOM", "41,2*", "*", "39.84*1"])
def test_marks_beside_words_are_asked_about(other: str):
    frame = table(f"model;seed;acc / base;0;38 / base;1;38.5 / new;0;39.84* / new;1;{other}".replace(";", "\t"), "\t")
    with pytest.raises(UserError, match="row 3: acc is `39.84\\*`, which is not a number"):
        ablate.judge(frame, baseline="base")


def test_marks_that_name_rows_are_kept():
    frame = table("lr,seed,acc / 1,0,.8 / 1,1,.81 / 1*,0,.9 / 1*,1,.91")
    assert [score.row.label for score in ablate.judge(frame, row="lr", baseline="1").comparisons] == ["1*"]


BASE = "".join(f" / base,{seed},.80{seed},finished" for seed in range(6))
NEW = "".join(f" / new,{seed},.90{seed},finished" for seed in range(5))


@pytest.mark.parametrize("word", ["TIMEOUT", "OUT_OF_MEMORY", "node_fail", "FAILED (OOM)", "error: CUDA", "exploded"])
def test_a_run_that_did_not_finish_has_failed_whatever_its_state_is_called(word):
    found = ablate.judge(table(f"who,seed,acc,status{BASE}{NEW} / new,5,,{word}"), baseline="base")
    assert verdicts(found) == {"new": "undecided"} and "of a failed run" in found.warnings[0]
    for still_open in ("running", "In Progress", "not started", "preempting", "CANCELLED by 1000", ""):
        running = ablate.judge(table(f"who,seed,acc,status{BASE}{NEW} / new,5,,{still_open}"), baseline="base")
        assert verdicts(running) == {"new": "better"}, still_open
    succeeded = table(f"who,seed,acc,status{BASE}{NEW} / new,5,.1,timeout".replace("finished", "success"))
    assert verdicts(ablate.judge(succeeded, baseline="base")) == {"new": "undecided"}


def test_runs_that_failed_count_in_long_tables_and_with_texts_and_without_a_name_they_are_told():
    long = table(f"who,seed,acc,status{BASE}{NEW} / new,5,,failed").melt(["who", "seed", "status"], var_name="metric")
    assert verdicts(ablate.judge(long, baseline="base")) == {"new": "undecided"}
    texts = pd.concat([table(f"who,seed,acc,status{BASE}{NEW} / new,5,,failed").assign(text_id=n) for n in range(3)])
    assert verdicts(ablate.judge(texts, baseline="base")) == {"new": "undecided"}
    nameless = ablate.judge(table(f"who,seed,acc,status{BASE}{NEW} / ,,,crashed"), baseline="base")
    assert "1 failed run of no known row and seed" in nameless.columns and verdicts(nameless) == {"new": "better"}


def test_a_report_of_a_run_without_any_score_is_read_again(tmp_path):
    found = ablate.judge(table(f"who,seed,acc,status{BASE}{NEW} / new,5,,failed"), baseline="base")
    found.report(tmp_path / "report")
    again, columns = choose(read(str(tmp_path / "report" / "results.csv"), ""), Columns((), ()))
    assert verdicts(ablate.judge_table(again, columns, Question("base"), "")) == verdicts(found)


def test_data_sets_may_have_texts_of_their_own():
    rng, lines = np.random.default_rng(2), []
    for data, texts in (("a", 30), ("b", 40)):
        shift = rng.normal(size=(4, texts))
        for row, effect in (("base", 0.0), ("new", 0.8)):
            values = shift + effect + 0.1 * rng.normal(size=(4, texts))
            lines += [(data, row, s, f"{data}{t}", values[s, t]) for s in range(4) for t in range(texts)]
    frame = pd.DataFrame(lines, columns=["data", "model", "seed", "station", "points"])
    found = ablate.judge(frame, baseline="base", text="station", data="data", higher="points")
    assert [score.verdict for score in found.comparisons] == ["better", "better"] and not found.warnings


def test_a_design_within_rows_is_no_run():
    """Shares of the data, each once in every row, are settings; numbers that only count are runs."""
    lines = [(row, pct, 0.5 + pct / 300 + 0.001 * len(row)) for row in ("voc", "food") for pct in (1, 2, 5, 10)]
    frame = pd.DataFrame(lines, columns=["population", "pct", "accuracy"])
    assert choose(of_frame(frame, "t"), Columns((), ()))[1].row == ("population", "pct")
    counted = frame.assign(pct=[0, 1, 2, 3] * 2)
    assert choose(of_frame(counted, "t"), Columns((), ()))[1].row == ("population",)


@pytest.mark.parametrize("title", ["acc (mean ± stderr)", "acc_ci95", "acc (95% confidence interval)", "acc ± s.e.m."])
def test_a_title_that_names_another_spread_is_believed(title):
    frame = pd.DataFrame({"m": ["a", "b"], title: ["81.2 ± 0.5", "82.1 ± 0.5"], "n": [5, 5]})
    with pytest.raises(UserError, match="says that ± is no standard deviation"):
        ablate.judge(frame, baseline="a")
    for other in ("CI accuracy", "VaR", "accuracy"):  # which only begin like one
        assert ablate.judge(frame.rename(columns={title: other}), baseline="a").comparisons


def test_small_habits_are_read():
    frame = pd.DataFrame(
        {"m": ["a", "b"] * 3, "config.seed": [0, 0, 1, 1, 2, 2], "acc": [0.1, 0.2, 0.3, 0.1, 0.2, 0.25]}
    )
    assert choose(of_frame(frame, "t"), Columns((), ()))[1].seed == "config.seed"
    lists = frame.assign(curve=[f"[{k}, {k + 1}]" for k in (0, 1, 2, 3, 4, 4)])
    assert choose(of_frame(lists, "t"), Columns((), ()))[1].row == ("m",)


def test_hyperparameters_beside_scores_are_none_and_bits_a_dimension_are_one():
    lines = [(row, 0.1 * k, 0.9 + k, 3.0 + row * k) for row in (0, 1) for k in range(3)]
    frame = pd.DataFrame(lines, columns=["m", "gamma", "reward", "bits/dim"]).assign(m=["a"] * 3 + ["b"] * 3)
    assert choose(of_frame(frame, "t"), Columns((), ()))[1].scores == ("reward", "bits/dim")


def test_a_state_that_is_none_of_a_run_leaves_nothing_out():
    """Words that begin with one for a failure, states of a country, and what a user names as row."""
    frame = pd.DataFrame({"m": ["a", "a", "b", "b"], "seed": [0, 1, 0, 1], "acc": [0.1, 0.2, 0.3, 0.5]})
    for states in (["scratch", "transferred"] * 2, ["CA", "NY", "OK", "CA"]):
        assert len(choose(of_frame(frame.assign(state=states), "t"), Columns((), ()))[0].frame) == 4
    named = frame.assign(status=["none", "none", "failed memory", "failed memory"]).drop(columns="m")
    assert len(choose(of_frame(named, "t"), Columns(("status",), ()))[0].frame) == 4


def test_numbers_of_runs_are_no_settings_and_data_seeds_pair_nothing():
    frame = pd.DataFrame({"m": ["a"] * 3 + ["b"] * 3, "rng": [42, 7, 99] * 2, "acc": [0.1, 0.2, 0.3, 0.4, 0.2, 0.5]})
    for names in ("rng", "gpu", "seed_id"):
        assert choose(of_frame(frame.rename(columns={"rng": names}), "t"), Columns((), ()))[1].row == ("m",), names
    assert choose(of_frame(frame.assign(rng=[3, 4, 5] * 2).rename(columns={"rng": "x"}), "t"), Columns((), ()))[
        1
    ].row == ("m",)
    runs = frame.assign(run=[0, 1, 2] * 2, data_seed=42).drop(columns="rng")
    assert choose(of_frame(runs, "t"), Columns((), ()))[1].seed == "run"


def test_markdown_keeps_its_lines_with_any_line_ends(tmp_path):
    (tmp_path / "t.csv").write_bytes(
        b"\r\n\r\n| m | seed | acc |\r\n|---|--:|:-:|\r\n | a | 0 | .8 |\r\n| b | 0 | .9 |\r\n"
    )
    found = read(str(tmp_path / "t.csv"), "")
    assert [*found.frame.index] == ["line 5", "line 6"]
    assert found.frame.to_dict("list") == {"m": ["a", "b"], "seed": ["0", "0"], "acc": [".8", ".9"]}


def test_a_training_score_is_not_the_headline_beside_the_same_score_of_test_data():
    frame = table("m,seed,train/acc,train/loss,test/acc / base,3,.90,.2,.80 / base,8,.91,.3,.81 / base,15,.90,.2,.80 / "
                  "new,3,.99,.1,.75 / new,8,.99,.1,.77 / new,15,.98,.2,.75")  # fmt: skip
    found = ablate.judge(frame, baseline="base")
    assert [score.value for score in found.comparisons] == ["test/acc", "train/loss"]
    assert "not used: train/acc" in found.columns and "new beats base" not in str(found)
    bare = ablate.judge(frame.rename(columns={"test/acc": "acc"}), baseline="base")
    assert [score.value for score in bare.comparisons] == ["acc", "train/loss"]
    costs = frame.rename(columns={"train/acc": "train_time", "test/acc": "test_time"})
    assert {score.value for score in ablate.judge(costs, baseline="base").comparisons} >= {"train_time", "test_time"}
    alone = ablate.judge(frame, baseline="base", score="train/acc")
    assert "new beats base: train/acc 90.3 → 98.7 %" in str(alone)


def test_a_headline_names_the_scores_in_which_the_winner_is_worse(tmp_path):
    frame = table("m,seed,bleu,f1,loss / base,3,20.1,.800,.50 / base,8,20.2,.811,.51 / base,15,20.4,.805,.49 / "
                  "new,3,29.1,.703,.90 / new,8,29.3,.711,.92 / new,15,29.2,.699,.91")  # fmt: skip
    assert str(ablate.judge(frame, baseline="base")).endswith("; worse in f1 and loss")
    assert str(ablate.judge(frame[["m", "seed", "bleu"]], baseline="base")).startswith("new beats base: bleu +8.97")


def test_runs_that_have_not_ended_are_said_to_be_left_out_with_their_rows():
    frame = table("m,seed,acc,status / base,3,.80,done / base,8,.81,done / new,3,.9,done / new,8,.91,running / "
                  "best,3,.95,pending / best,8,.96,pending")  # fmt: skip
    (said,) = [each for each in ablate.judge(frame, baseline="base").warnings if "Left out" in each]
    assert (
        said
        == "Left out, as their runs did not finish (status running, pending): 3 of the lines, of these rows: new, best."
    )
    assert not any("Left out" in each for each in ablate.judge(frame[:3], baseline="base").warnings)


def test_names_that_are_alike_are_different_rows_with_a_warning():
    frame = table("m,seed,acc / base,3,.80 / base,8,.81 / Sim-CSE,3,.9 / Sim-CSE,8,.91 / simcse,3,.92 / simcse,8,.9")
    assert ablate.judge(frame, baseline="base").warnings == [
        "Sim-CSE, simcse: these names differ only in case, spaces or hyphens, but are taken for different rows."
    ]
    rates = frame.replace({"Sim-CSE": "rate 1e-3", "simcse": "rate 1e3"})
    assert not ablate.judge(rates, baseline="base").warnings


def test_lines_without_seeds_are_taken_for_runs_with_a_warning_and_checkpoints_are_not():
    frame = table("m,layer,acc / a,1,.80 / a,2,.82 / a,3,.81 / b,1,.90 / b,2,.92 / b,3,.91")
    assert any("No column has seeds" in each for each in ablate.judge(frame, baseline="a").warnings)
    seeded = frame.rename(columns={"layer": "seed"})
    assert not any("No column has seeds" in each for each in ablate.judge(seeded, baseline="a").warnings)
    for name in ("checkpoint", "ckpt", "iter", "round"):
        with pytest.raises(UserError, match=f"increasing {name}; if they are a log, add a column seed"):
            ablate.judge(frame.rename(columns={"layer": name}), row="m", baseline="a")


def test_runs_of_unequal_length_are_a_warning_of_the_report():
    frame = table(
        "m,seed,epoch,acc / a,1,1,.5 / a,1,2,.6 / a,2,1,.5 / a,2,2,.6 / b,1,1,.5 / b,1,9,.9 / b,2,1,.5 / b,2,9,.91"
    )
    said = ablate.judge(frame, baseline="a").warnings
    assert any("2 of 4 runs end earlier than the others (epoch 2 to 9)" in each for each in said)


def test_a_line_break_in_a_name_makes_no_line_of_its_own():
    frame = pd.DataFrame({"m": ["a"] * 3 + ["b\nc, acc: better"] * 3, "seed": [3, 8, 15] * 2,
                          "acc": [.8, .81, .8, .9, .91, .92]})  # fmt: skip
    assert "b c, acc: better beats a" in str(ablate.judge(frame, baseline="a"))


def test_an_order_by_one_of_many_scores_is_no_sign_of_sorted_runs_unless_it_is_sure():
    scores = {f"t{i}_acc": [0.80, 0.82, 0.81, 0.84, 0.86, 0.85] for i in range(6)}
    frame = pd.DataFrame({"m": ["base"] * 3 + ["new"] * 3, "seed": [0, 1, 2] * 2} | scores)
    by_the_last = frame.assign(t5_acc=[0.80, 0.81, 0.82, 0.84, 0.85, 0.86])
    assert "paired by seed" in ablate.judge(by_the_last, baseline="base").columns
    by_the_first = frame.assign(t0_acc=by_the_last["t5_acc"])
    assert "sorted by score" in ablate.judge(by_the_first, baseline="base").columns
    longer = pd.DataFrame({
        "m": ["base"] * 5 + ["new"] * 5, "seed": [*range(5)] * 2, "acc": [0.8, 0.9, 0.7, 0.8, 0.7] * 2,
        "f1": [0.80, 0.81, 0.82, 0.83, 0.84, 0.9, 0.91, 0.92, 0.93, 0.94],
    })  # fmt: skip
    assert "sorted by score" in ablate.judge(longer, baseline="base").columns


def test_frames_as_pandas_makes_them_are_read():
    frame = table("m,seed,acc / base,1,.80 / base,3,.81 / base,4,.805 / new,1,.90 / new,3,.91 / new,4,.92")
    wide = ablate.judge(frame.pivot(index="m", columns="seed", values="acc"), baseline="base")
    assert verdicts(wide) == verdicts(ablate.judge(frame, baseline="base")) == {"new": "better"}
    again = frame.pivot(index="m", columns="seed", values="acc").reset_index()
    assert verdicts(ablate.judge(again, row="m", baseline="base")) == {"new": "better"}
    means = frame.groupby("m").agg({"acc": ["mean", "std", "count"]})
    unequal = means.set_axis(["acc_mean", "acc_std", "acc_count"], axis=1).assign(f1_mean=0.7, f1_std=0.1, f1_count=2)
    with pytest.raises(UserError, match="differ; name one score at a time: --score COLUMN"):
        ablate.judge(unequal, baseline="base")
    others = table("m,acc,acc_std,param_count / base,.8,.01,7000 / new,.812,.01,7000")
    with pytest.raises(UserError, match="without the number of runs"):
        ablate.judge(others, baseline="base")
    (found,) = ablate.judge(means, baseline="base").comparisons
    assert (found.value, found.verdict, found.seeds) == ("acc", "better", 3)


def test_a_bar_in_a_cell_of_markdown_belongs_to_its_name(tmp_path):
    path = tmp_path / "t.md"
    path.write_text("| m | seed | acc |\n|---|---|---|\n" + "".join(
        f"| {name} | {seed} | {level + seed / 1000} |\n" for name, level in ((r"p(x\|y)", 0.8), ("new", 0.9))
        for seed in (3, 8, 15)))  # fmt: skip
    table, columns = choose(read(str(path), ""), Columns((), ()))
    assert list(dict.fromkeys(table.frame["m"])) == ["p(x|y)", "new"] and columns.scores == ("acc",)


def test_names_that_look_the_same_are_the_same_and_a_missing_one_is_a_mistake():
    frame = table("m,seed,acc / b\u00e9,3,.80 / be\u0301,8,.81 / new,3,.9 / new,8,.91")
    assert verdicts(ablate.judge(frame, baseline="b\u00e9")).keys() == {"new"}
    assert verdicts(ablate.judge(frame, baseline="be\u0301")).keys() == {"new"}
    with pytest.raises(UserError, match="row 3: m is empty"):
        ablate.judge(frame.assign(m=["a", "a", None, "b"]), baseline="a")


def test_nested_values_are_answered_by_what_makes_columns_of_them():
    frame = pd.DataFrame({"m": ["a", "b"], "metrics": [{"acc": 0.8}, {"acc": 0.9}]})
    with pytest.raises(UserError, match="write each of its numbers into a column, as pandas.json_normalize does"):
        ablate.judge(frame, score="metrics", baseline="a")


def doubted(frame: pd.DataFrame, words: str, **given: object) -> bool:
    return any(words in warning for warning in ablate.judge(frame, baseline="base", **given).warnings)


def test_lines_of_a_row_that_share_what_is_not_used_are_doubted():
    lines = [(m, task, k, (task + k) % 3 == 0) for m in ("base", "new") for task in range(4) for k in range(6)]
    frame = pd.DataFrame(lines, columns=["model", "task_id", "completion_id", "acc"]).astype({"acc": float})
    assert doubted(frame, "Not used: task_id, completion_id, which lines of a row share")
    assert doubted(frame, "No column has seeds")  # a name with id in it does not number the runs if it repeats
    own = frame.assign(task_id=range(48)).drop(columns="completion_id")
    assert not doubted(own, "Not used") and not doubted(own, "No column has seeds")


def test_rows_that_differ_in_what_is_not_used_are_doubted():
    sizes = {"base": [8] * 5 + [64] * 5, "new": [64] * 5}
    lines = [(m, n, 0.5 + n / 1000 + k / 500) for m, own in sizes.items() for k, n in enumerate(own)]
    frame = pd.DataFrame(lines, columns=["model", "shots", "acc"])
    assert doubted(frame, "Not used: shots, in which rows differ (base: 64, 8; new: 64)")
    assert not doubted(frame[frame["shots"] == 64], "Not used")
    corpora = frame.assign(shots=frame["shots"].map({8: "SST", 64: "MNLI"}).astype(str))
    assert doubted(corpora, "Not used: shots, in which rows differ (base: MNLI, SST; new: MNLI)", row="model")


def test_more_lines_than_anybody_trains_are_doubted():
    frame = pd.DataFrame({"model": ["base"] * 120 + ["new"] * 120, "replicate": [*range(120)] * 2,
                          "acc": np.random.default_rng(0).normal(0.8, 0.01, 240)})  # fmt: skip
    assert doubted(frame, "120 lines of a row are taken for runs of their own")
    assert not doubted(frame[frame["replicate"] < 99], "are taken for runs of their own")


def test_samples_of_each_problem_are_compared_by_problem():
    lines = [(m, p, k, (p + k) % 3 == 0) for m in ("base", "new") for p in range(4) for k in range(6)]
    frame = pd.DataFrame(lines, columns=["model", "problem_id", "trial", "acc"]).astype({"acc": float})
    found = ablate.judge(frame, baseline="base")
    assert "paired by trial; texts by problem_id" in found.columns and not found.warnings


def test_a_setting_that_a_search_left_out_is_none():
    scores = {f"split{i}_test_score": [0.8, 0.9 + i / 100, 0.7 - i / 100] for i in range(3)}
    search = pd.DataFrame({"param_kernel": ["linear", "rbf", "rbf"], "param_gamma": [np.nan, 0.1, 1.0]} | scores)
    assert {*verdicts(ablate.judge(search, baseline="linear · gamma=none"))} == {"rbf · gamma=0.1", "rbf · gamma=1.0"}


def test_errors_of_lm_eval_are_no_scores():
    scores = table(
        "m;seed;acc,none;acc_stderr,none / base;0;.8;.01 / base;1;.81;.011 / new;0;.9;.012 / new;1;.9;.01", ";"
    )
    assert {c.value for c in ablate.judge(scores, baseline="base").comparisons} == {"acc,none"}


def test_words_that_a_user_names_as_seeds_pair_rows():
    lines = [(m, rater, 3 + level + k / 10) for m, level in (("base", 0), ("new", 1)) for k, rater in enumerate("bca")]
    frame = pd.DataFrame(lines, columns=["system", "rater", "rating"])
    found = ablate.judge(frame, baseline="base", seed="rater")
    assert "paired by rater" in found.columns
    assert [c.seeds for c in found.comparisons] == [3]


def test_one_of_several_columns_of_rows_may_be_empty():
    frame = table("scheme;options;seed;acc / ZeroR;;0;.5 / ZeroR;;1;.52 / SMO;C 1;0;.8 / SMO;C 1;1;.83 / "
                  "SMO;C 2;0;.9 / SMO;C 2;1;.92", ";")  # fmt: skip
    assert {*verdicts(ablate.judge(frame, baseline="ZeroR"))} == {"SMO · C 1", "SMO · C 2"}


def test_numbers_at_the_end_of_names_may_be_seeds():
    frame = table("run,acc / bert-42,.8 / bert-43,.81 / roberta-42,.9 / roberta-43,.91")
    with pytest.raises(UserError, match="no row `bert`, but several that add a number to it .* into a column seed"):
        ablate.judge(frame, baseline="bert")


def test_true_and_false_are_one_and_zero_in_a_score_and_words_in_a_setting():
    frame = table("model,seed,item,correct,use_lora / " + " / ".join(
        f"{model},{seed},{item},{(3 * item + seed * seed) % share != 0},{lora}"
        for model, share, lora in (("base", 2, False), ("new", 5, True)) for seed in range(4) for item in range(40)
    )).astype(str)  # fmt: skip
    found = ablate.judge(frame, text="item", row="model", baseline="base")
    assert verdicts(found) == {"new": "better"} and "`False` was read as 0" in found.columns
    assert "new · True" in verdicts(ablate.judge(frame, text="item", baseline="base · False"))
    truths = frame.assign(correct=frame["correct"] == "True")
    assert str(ablate.judge(truths, text="item", row="model", baseline="base")) == str(found)


@pytest.mark.parametrize("name", ["init_ckpt", "ckpt", "gpu"])
def test_runs_that_share_a_checkpoint_are_told_of_though_they_have_seeds(name: str):
    rng = np.random.default_rng(0)
    lines = [(row, c, 4 * c + s, 70 + x + rng.normal(0, 0.1)) for row in ("base", "new") for c in range(4)
             for x in [rng.normal()] for s in range(4)]  # fmt: skip
    frame = pd.DataFrame(lines, columns=["model", name, "seed", "accuracy"])
    (warning,) = ablate.judge(frame, baseline="base").warnings
    assert name in warning and "average the lines of each value" in warning
    averaged = frame.groupby(["model", name])["accuracy"].mean().reset_index().rename(columns={name: "seed"})
    assert ablate.judge(averaged, baseline="base").warnings == []
    assert ablate.judge(frame.drop(columns=name), baseline="base").warnings == []


def test_rates_and_runs_in_fractions_beside_percent_are_asked_about():
    wer = table("model,seed,wer / base,0,.052 / base,1,.051 / new,0,4.9 / new,1,4.8")
    with pytest.raises(UserError, match="row 1 and row 3"):
        ablate.judge(wer, baseline="base")
    assert verdicts(ablate.judge(wer, baseline="base", lower="wer")) == {"new": "worse"}
    assert verdicts(ablate.judge(wer.assign(wer=[0.9, 0.95, 1.9, 1.8]), baseline="base"))  # a WER may be above 1
    mixed = table("model,seed,acc / base,0,.81 / base,1,80.5 / new,0,85 / new,1,.86")
    with pytest.raises(UserError, match="row 1 and row 2: one has acc as a fraction"):
        ablate.judge(mixed, baseline="base")
    assert verdicts(ablate.judge(mixed.assign(acc=[70, 0.2, 72, 73]), baseline="base"))  # a collapsed run


def test_counts_out_of_totals_that_differ_are_refused():
    frame = table("model,seed,correct,total / base,0,81,100 / base,1,80,100 / new,0,161,200 / new,1,162,200")
    with pytest.raises(UserError, match="correct seems to be a count out of total"):
        ablate.judge(frame, baseline="base")
    assert verdicts(ablate.judge(frame.assign(total=200), baseline="base"))
    shares = frame.assign(share=frame["correct"] / frame["total"]).drop(columns="correct")
    assert verdicts(ablate.judge(shares, baseline="base"))


def test_lines_that_are_there_twice_are_named():
    frame = table("model,acc / base,.81 / base,.82 / base,.83 / new,.8 / new,.79 / new,.84")
    warnings = ablate.judge(pd.concat([frame, frame]), baseline="base").warnings
    assert any("row 7 is the same as row 1 in all columns; so are 6 lines" in warning for warning in warnings)
    assert not any("same as" in warning for warning in ablate.judge(frame, baseline="base").warnings)


def test_averages_over_data_sets_and_columns_without_values_are_left_out():
    values = {"x": (0.7, 0.71, 0.7, 0.72), "y": (0.61, 0.62, 0.61, 0.63), "Average": (0.65, 0.66, 0.65, 0.67)}
    lines = [
        (row, seed, data, own[2 * k + seed], "")
        for data, own in values.items()
        for k, row in enumerate(("base", "new"))
        for seed in (0, 1)
    ]
    frame = pd.DataFrame(lines, columns=["model", "seed", "dataset", "acc", "error_message"])
    found = ablate.judge(frame, baseline="base")
    assert len(found.comparisons) == 2 and "lines of dataset Average are left out" in found.columns
    assert "error_message" not in str(found.warnings) + found.columns


def test_chinese_headings_and_explained_variance_have_directions():
    frame = table(
        "model,随机种子,错误率,explained variance / base,0,.8,.8 / base,1,.82,.82 / new,0,.7,.7 / new,1,.71,.72"
    )
    found = ablate.judge(frame, baseline="base").columns
    assert "错误率 (lower is better), explained variance (higher is better); paired by 随机种子" in found
