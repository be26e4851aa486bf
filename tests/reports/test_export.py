"""The tidy table by hand, the same bytes from a store made again, and no hole that is not to be seen."""

import dataclasses
import shutil
from pathlib import Path

import pandas as pd
import pytest

from benchmarks import synthetic
from contrastive.config.experiment import Experiment
from reports.export import tidy, write_tables
from reports.load import Results, load

TOKENS = {"base": {"loss": "ce+supcon", "view": "topk_tokens"}, "axes": {"k": [2, 3], "alpha": [0.2, 0.5]}}
SECTIONS = [{"title": "Losses", "axes": {"loss": ["ce+supcon", "rdrop"]}}, {"title": "Tokens", **TOKENS}]


def written(home: Path, **salt: str) -> Results:
    settings = synthetic.experiment(2).model_dump(mode="json") | {"sections": SECTIONS, "seeds": [0, 7]}
    return load("synthetic", synthetic.write(home, Experiment.model_validate(settings), **salt))


@pytest.fixture
def results(home: Path) -> Results:
    return written(home)


def test_a_row_a_section_row_seed_and_score(results: Results):
    frame = tidy(results)
    assert len(frame) == (3 + 5) * 2 * 19 and set(frame["variant"]) == {""}
    row = frame[(frame["label"] == "k=3 · α=0.5") & (frame["seed"] == 7) & (frame["score"] == "test.accuracy")]
    (found,) = row.to_dict("records")
    cell = results.grid.sections[1].rows[4].cells[1]
    assert (found["section"], found["row"], found["cell"], found["status"]) == ("Tokens", 4, cell, "finished")
    assert (found["axis.k"], found["axis.alpha"], found["seconds"], found["count"]) == (3, 0.5, 40.0, 600)
    assert found["value"] == results.scores.loc[cell, "test.accuracy"] and found["higher_is_better"] is True
    assert found["standard_error"] == pytest.approx((found["value"] * (1 - found["value"]) / 600) ** 0.5)
    assert found["run_id"] == results.cells[cell].run_id
    assert pd.isna(frame.loc[frame["section"] == "Tokens", "axis.loss"]).all()
    assert frame["section"].is_monotonic_increasing and list(frame["row"].unique()[:3]) == [0, 1, 2]
    directions = frame.drop_duplicates("score").set_index("score")["higher_is_better"]
    assert not directions["test.ece"] and pd.isna(directions["test.spread"])


def test_variants_have_a_column_what_is_missing_a_row_and_axes_of_several_types_are_texts(results: Results):
    cell, gone = results.grid.sections[0].rows[1].cells
    wider = results.scores.assign(**{"mean/whiten:8/test.svm_accuracy": 0.5}).drop(index=gone)
    held = {name: run for name, run in results.cells.items() if name != gone}
    frame = tidy(dataclasses.replace(results, scores=wider, cells=held))
    other = frame[(frame["cell"] == cell) & (frame["variant"] == "mean/whiten:8")]
    assert list(other["score"]) == ["test.svm_accuracy"] and list(other["value"]) == [0.5]
    (hole,) = frame[(frame["cell"] == gone) & (frame["section"] == "Losses")].to_dict("records")
    assert hole["status"] == "missing" and pd.isna(hole["value"]) and pd.isna(hole["score"]) and hole["seed"] == 7
    # axes of several types are texts
    results.grid.sections[1].rows[1].axes["k"] = "all"
    frame = tidy(results)
    assert set(frame.loc[frame["section"] == "Tokens", "axis.k"].dropna()) == {"all", "2", "3"}


def test_the_same_results_give_the_same_bytes(results: Results, home: Path, empty_store: Path):
    for name in ("one", "two", "again"):
        (home / name).mkdir()
    write_tables(tidy(results), home / "one")
    write_tables(tidy(results), home / "two")
    runs = {run.run_id for run in results.cells.values()}
    shutil.rmtree(home / "mlartifacts")
    shutil.copy(empty_store, home / "mlflow.db")
    again = written(home, salt="again")
    assert not runs & {run.run_id for run in again.cells.values()}
    write_tables(tidy(again), home / "again")
    for file in ("results.parquet", "results.csv"):
        assert (home / "one" / file).read_bytes() == (home / "two" / file).read_bytes()
        assert (home / "one" / file).read_bytes() == (home / "again" / file).read_bytes()
    parquet, text = pd.read_parquet(home / "one" / "results.parquet"), pd.read_csv(home / "one" / "results.csv")
    assert list(parquet.columns) == list(text.columns) and len(parquet) == len(text) == len(tidy(results))
    assert parquet["value"].equals(text["value"]) and str(home) not in (home / "one" / "results.csv").read_text()
