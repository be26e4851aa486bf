"""Boards: rows that cannot be told from the best, records in their order, known deviations, what texts alone allow."""

import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from typer.testing import CliRunner

import ablate
from contrastive.errors import UserError
from flows.cli import app
from tests.ablate.test_tables import verdicts

SHIFTS = (0.0, 3.0, 2.5, 6.0, 6.1)  # of the rows, in deviations of a run


def board(shifts: tuple[float, ...] = SHIFTS, runs: int = 5, seed: int = 0) -> pd.DataFrame:
    """Rows with seeds of their own, in mixed order, with the date of each."""
    rng = np.random.default_rng(seed)
    lines = [
        {"name": f"r{i}", "date": f"2026-{i + 1:02d}-10", "seed": 100 * i + 7 * k, "points": shift + rng.normal()}
        for i, shift in enumerate(shifts)
        for k in range(runs)
    ]
    return pd.DataFrame(lines).sample(frac=1, random_state=1, ignore_index=True)


def test_rows_are_compared_with_the_best_and_all_pairs_share_the_level():
    table = board()
    found = ablate.judge(table, score="points", ties=True)
    values = {name: own["points"].to_numpy() for name, own in table.groupby("name")}
    best = max(values, key=lambda name: values[name].mean())
    score = next(score for score in found.comparisons if score.row.label == "r0")
    welch = stats.ttest_ind(values["r0"], values[best], equal_var=False)
    assert score.comparison.half_width == pytest.approx(
        -welch.confidence_interval(1 - 0.05 / 10).low + score.comparison.difference
    )
    assert verdicts(found) == {
        "r3" if best == "r4" else "r4": "undecided",
        **dict.fromkeys(("r0", "r1", "r2"), "worse"),
    }
    assert str(found) == f"1 row cannot be distinguished from {best}, the first"
    assert found.results.study.sections[0].rows[0].label == best


@pytest.mark.parametrize("order", ["date", "table"])
def test_each_row_is_compared_with_the_best_before_it(order):
    table = board() if order == "date" else board().sort_values("date", ignore_index=True)
    found = ablate.judge(table, score="points", records=order)
    against = {score.row.label: score.comparison.against.label for score in found.comparisons}
    assert against["r1"] == "r0" and against["r2"] == "r1" and against["r3"] == "r1"
    assert verdicts(found)["r2"] == "no record" and verdicts(found)["r3"] == "better"
    holding = [*verdicts(found).values()].count("better")
    claims = sum(score.comparison.difference > 0 for score in found.comparisons)
    verb = "is" if claims - holding == 1 else "are"
    assert str(found) == f"{holding} of {claims} records hold, {claims - holding} {verb} undecided"
    lower = ablate.judge(table.assign(points=-table["points"]), score="points", records=order, lower="points")
    assert verdicts(lower) == verdicts(found)


@pytest.mark.parametrize("question", [{"ties": True}, {"records": "table"}])
def test_boards_of_equal_rows_make_no_false_verdicts(question):
    """Eight equal rows, four runs each: at most 5 % of boards may call a row worse than the best, or a record real."""
    tables = 60
    found = [ablate.judge(board((0.0,) * 8, 4, seed), score="points", **question) for seed in range(tables)]
    wrong = sum(bool({"better", "worse"} & {*verdicts(each).values()}) for each in found)
    assert wrong / tables <= 0.05 + 2 * (0.05 * 0.95 / tables) ** 0.5


def test_a_known_deviation_judges_one_run_a_row_and_the_page_says_so(tmp_path: Path):
    table = pd.DataFrame({"name": ["a", "b", "c"], "points": [10.0, 9.9, 5.0]})
    assert verdicts(ablate.judge(table, score="points", ties=True)) == {"b": "one seed", "c": "one seed"}
    found = ablate.judge(table, score="points", ties=True, sigma={"points": 1.0})
    assert verdicts(found) == {"b": "undecided", "c": "worse"}
    width = next(score for score in found.comparisons).comparison.half_width
    assert width == pytest.approx(stats.norm.isf(0.05 / 2 / 3) * math.sqrt(2), rel=1e-4)
    assert "known standard deviation of one run, 1 (--sigma)" in found.report(tmp_path / "page").read_text()
    several = ablate.judge(board(), score="points", ties=True, sigma={"points": 2.0})
    assert any("The runs here have a standard deviation of" in words for words in several.warnings)


@pytest.mark.parametrize("texts", [1000, "items"])
def test_what_the_number_of_texts_alone_cannot_tell_apart(texts):
    table = pd.DataFrame({"name": ["a", "b", "c"], "accuracy": [0.80, 0.77, 0.75], "items": 1000})
    found = ablate.judge(table, score="accuracy", ties=True, texts=texts)
    # standard error of a difference: 1.8 points
    (words,) = [words for words in found.warnings if "cannot be distinguished" in words]
    assert words.startswith("On 1000 test texts, 1 row cannot be distinguished from a: b.")


def test_tables_of_means_and_dates_with_slashes_have_an_order():
    table = pd.DataFrame({"model": ["a", "b", "c"], "date": ["05/03/2026", "13/04/2026", "01/02/2026"]})
    means = table.assign(mean=[81.0, 83.9, 79.0], std=0.3, n=3)
    found = ablate.judge(means, records="date")
    assert [(score.row.label, score.comparison.against.label) for score in found.comparisons] == [
        ("a", "c"),
        ("b", "a"),
    ]
    assert str(found) == "2 of 2 records hold, 0 are undecided"
    with pytest.raises(UserError, match="row 1: date is `05/03/2026`, of which day or month may be first"):
        ablate.judge(means[means["model"] != "b"], records="date")


def test_shares_in_percent_of_an_unknown_name_count_for_the_texts():
    table = pd.DataFrame({"name": ["a", "b", "c"], "IFEval": [80.0, 77.0, 75.0]})
    found = ablate.judge(table, score="IFEval", ties=True, texts=1000)
    assert str(found) == "On 1000 test texts, 1 row cannot be distinguished from a; there is one seed per row"


def test_an_equivalent_row_that_is_told_apart_does_not_share_the_first_rank():
    table = pd.DataFrame({"name": ["a", "b", "c"], "acc": [0.900, 0.895, 0.7]})
    found = ablate.judge(table, score="acc", ties=True, sigma={"acc": 0.0005})
    assert verdicts(found)["b"] == "equivalent" and str(found) == "a is better than every other row"


def test_a_row_of_few_unlucky_runs_keeps_others_from_being_called_records():
    """The best row has one or two runs; the one before the last has more, and is no better than that."""
    rng, wrong = np.random.default_rng(2), 0
    for _ in range(60):
        rows = {"a": rng.normal(1.0, 0.1, 2), "b": rng.normal(0.9, 0.1, 30), "c": rng.normal(1.0, 0.1, 30)}
        lines = [(name, value) for name, own in rows.items() for value in own]
        found = ablate.judge(pd.DataFrame(lines, columns=["name", "points"]), score="points", records="table")
        wrong += verdicts(found)["c"] == "better"
    assert wrong / 60 <= 0.05 + 2 * (0.05 * 0.95 / 60) ** 0.5


@pytest.mark.parametrize(
    ("best", "headline"),
    [
        ([0.95], "best, the first, has one run: without more, no row can be distinguished from it"),
        ([math.nan, 0.95, 0.951], "2 rows cannot be distinguished from best, the first"),  # it may fail again
    ],
)
def test_a_best_row_of_one_run_or_with_a_failed_one_beats_nothing(best, headline):
    rows = {"best": best, "a": [0.8, 0.801, 0.802], "b": [0.81, 0.811, 0.812]}
    lines = [(name, seed, value) for name, own in rows.items() for seed, value in enumerate(own)]
    found = ablate.judge(pd.DataFrame(lines, columns=["name", "seed", "accuracy"]), ties=True)
    assert str(found) == headline and not {"better", "worse"} & {*verdicts(found).values()}


def test_rows_that_were_not_tested_are_not_beaten_and_equal_means_are_no_record():
    table = pd.DataFrame(
        [("a", 0.9), ("a", 0.905), ("a", 0.91), ("b", 0.5), ("b", 0.51), ("b", 0.505), ("c", 0.899)],
        columns=["name", "accuracy"],
    )
    assert str(ablate.judge(table, score="accuracy", ties=True)) == "1 row cannot be distinguished from a, the first"
    for lower in ((), ("points",)):
        same = pd.DataFrame({"name": list("aabb"), "points": [1.0, 2.0, 2.0, 1.0]})
        found = ablate.judge(same, score="points", records="table", lower=lower)
        assert verdicts(found) == {"b": "no record"}


def test_a_column_of_years_and_dates_has_no_order():
    table = board().assign(when=["2024", "2024-06-01", "2025"] * 8 + ["2026"])
    with pytest.raises(UserError, match="when has dates and numbers"):
        ablate.judge(table, score="points", records="when")


def test_the_headline_of_records_says_what_was_tested():
    """With one run a row nothing is, though a row is no record; records that are too small to matter are counted."""
    table = pd.DataFrame({"name": list("abcde"), "accuracy": [0.412, 0.55, 0.562, 0.704, 0.6]})
    assert str(ablate.judge(table, records="table")) == "One seed per row: no difference can be tested"
    assert str(ablate.judge(table[3:], records="table")) == "No row after the first is a record"
    found = ablate.judge(table, records="table", sigma={"accuracy": 0.001}, margin=0.05)
    assert str(found) == "2 of 3 records hold, 0 are undecided, 1 is too small to matter"
    found = ablate.judge(table, records="table", sigma={"accuracy": 0.01}, margin=0.001)
    assert str(found) == "2 of 3 records hold, 1 is undecided"


def test_the_texts_are_said_to_tell_all_rows_apart_and_each_record_is_compared_with_the_one_before():
    table = pd.DataFrame({"name": list("abcde"), "accuracy": [0.412, 0.55, 0.562, 0.704, 0.6]})
    found = ablate.judge(table, ties=True, texts=90000)
    assert str(found) == "90000 test texts tell every other row from d; there is one seed per row"
    assert any(words.startswith("90000 test texts tell every other row from d. The") for words in found.warnings)
    found = ablate.judge(table, records="table", texts=500)
    near = "On 500 test texts, 1 row cannot be distinguished from the best row before it"
    assert str(found) == f"{near}; there is one seed per row"
    assert any(words.startswith(f"{near}: c. The spread") for words in found.warnings)
    found = ablate.judge(table, records="table", texts=90000)
    assert str(found).startswith("90000 test texts tell each record from the best row before it; there")
    several = pd.concat([table, pd.DataFrame({"name": ["e"], "accuracy": [0.61]})])
    assert "there is one seed per row" not in str(ablate.judge(several, ties=True, texts=500))


def test_a_known_deviation_is_said_in_points_of_a_table_in_percent():
    table = pd.DataFrame({"name": ["a", "b"], "accuracy": [80.0, 77.0]})
    (words, *_) = ablate.judge(table, ties=True, sigma={"accuracy": 0.5}).warnings
    assert "known standard deviation of one run, 0.5 points (--sigma)" in words


def test_a_number_of_texts_is_whole_and_may_have_a_sign_between_thousands():
    table = pd.DataFrame({"name": ["a", "b"], "accuracy": [80.0, 77.0]})
    assert str(ablate.judge(table, ties=True, texts="1,319")).startswith("On 1319 test texts")
    with pytest.raises(UserError, match="`1.5` is no number of texts"):
        ablate.judge(table, ties=True, texts="1.5")


WRONG = [
    (["--ties", "--records", "date"], "--ties and --records are two questions"),
    (["--ties", "--baseline", "r0"], "leave out --baseline, or --ties"),
    (["--records", "dat"], "has no column dat; did you mean `date`?"),
    (["--records", "name"], "name is `r.`, neither a date nor a number"),
    (["--ties", "--score", "other"], "--ties ranks by one score; name it: --score points"),
    (["--ties", "--sigma", "points"], "write SCORE=SIZE with a size above 0, such as --sigma accuracy=0.01"),
    (["--ties", "--margin", "points=inf"], "write SCORE=SIZE with a size above 0"),
    (["--ties", "--sigma", "acc=1"], "--sigma acc: no such score"),
    (["--ties", "--texts", "many"], "--texts says how well|give a number of test texts"),
]


@pytest.mark.parametrize(("options", "words"), WRONG)
def test_what_a_board_cannot_answer_is_said(tmp_path: Path, options: list[str], words: str):
    board().assign(other=1.5).to_csv(tmp_path / "board.csv", index=False)
    said = CliRunner().invoke(app, ["report", "--from", str(tmp_path / "board.csv"), "--score", "points", *options])
    assert isinstance(said.exception, UserError) and re.search(words, str(said.exception))


@pytest.mark.parametrize("sigma", [{"points": 0}, {"points": -1.0}, {"points": math.nan}, {"points": "x"}, 0.01])
def test_a_deviation_is_a_number_above_0(sigma):
    with pytest.raises(UserError, match="sigma is .*; give a number"):
        ablate.judge(board(), score="points", ties=True, sigma=sigma)


def test_a_board_has_one_data_set():
    table = pd.concat([board().assign(data="x"), board(seed=1).assign(data="y")])
    with pytest.raises(UserError, match="--ties ranks rows of one data"):
        ablate.judge(table, score="points", ties=True)
