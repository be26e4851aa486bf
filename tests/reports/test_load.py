"""What a report reads, what each text adds only when asked; the tidy table that it writes, the same bytes each time."""

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from mlflow import MlflowClient
from mlflow.entities import Metric, Param

from benchmarks import synthetic
from contrastive.config.experiment import Experiment
from contrastive.runs import store
from reports.export import tidy, write_csv
from reports.load import all_runs, load
from reports.study import Results
from tasks import record, tracking
from tests.recorded import cell_folder, failed_folder, grid


def recorded(home: Path) -> str:
    """Four cells, one of which failed, with curves of single terms and what each text adds; gives the address."""
    for number, seed in ((0, 0), (0, 1), (1, 0)):
        folder = cell_folder(f"c{number}s{seed}", "ce", seed, 0.7 + 0.1 * number)
        rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        for row in rows[::10]:
            row |= {"gradient_norm.ce": 1.5, "excess.supcon": 0.25}
        store.write_atomic(folder / "metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        each = {"test.accuracy": np.arange(40) % 3 > seed, "test.ids": np.arange(40, dtype=np.uint64)}
        np.savez_compressed(folder / "examples.npz", **each)
        store.mark_finished(folder, "DONE")
    failed_folder("c1s1", "ce+supcon", 1, "it broke")
    client = tracking.open_tracker(home)
    for name in ("c0s0", "c1s0", "c1s1", "c0s1"):
        record.record_cell(client, "small", home / "runs" / name, ["Recipes"], "")
    record.record_grid(client, "small", grid())
    return tracking.tracking_uri(home)


def test_runs_and_curves_are_read_as_they_were_recorded_and_what_each_text_adds_when_it_is_asked_for(home: Path):
    uri = recorded(home)
    client = tracking.open_tracker(home)
    run, *_ = tracking.find_runs(client, "small", "ablate.cell", "c0s0")
    odd = [
        Metric("odd", math.nan, 3, 0),
        Metric("endless", math.inf, 3, 0),
        Metric("loss", 7.0, 10**15, 3),
        Metric("gradient_normal", 1.0, 3, 0),
    ]
    client.log_batch(run.info.run_id, metrics=odd, params=[Param("ξ", "'); --")])
    deleted = client.create_run(run.info.experiment_id, tags={"ablate.cell": "c0s0"})
    client.delete_run(deleted.info.run_id)
    assert len(all_runs(client, run.info.experiment_id)) == 5
    results = load("small", uri)
    assert results.cells["c0s0"].params["ξ"] == "'); --" and results.scores.loc["c0s0", ["odd", "endless"]].isna().all()
    assert set(results.curves["key"]) == {"loss", "gradient_norm", "gradient_norm.ce", "excess.supcon"}
    ours = results.curves[results.curves["cell"] == "c0s0"].set_index(["key", "step"])["value"]
    assert ours["loss", 3] == 7.0 and len(ours["loss"]) == 30  # the later of two

    broken, *_ = tracking.find_runs(client, "small", "ablate.cell", "c1s1")
    client.log_artifact(broken.info.run_id, str(home / "runs" / "c0s0" / "examples.npz"))  # as of an earlier evaluation
    results = load("small", uri)
    names = ("test.accuracy", "test.ids", "test.ari")
    each, _marks = results.examples("c0s1", names)
    assert set(each) == {"test.accuracy", "test.ids"} and list(each["test.ids"]) == list(range(40))
    assert each["test.accuracy"].dtype == bool and each["test.accuracy"].sum() == 13
    assert results.examples("c9s9", names) == results.examples("c1s1", names) == ({}, {})  # none; it failed
    assert results.cells["c0s0"].params["training.epochs"] == "3"
    held = MlflowClient(results.uri).get_run(results.cells["c0s0"].run_id)
    assert held.info.experiment_id == results.experiment_id and held.data.tags["ablate.cell"] == "c0s0"
    assert list(results.measured["cell"]) == ["c0s0", "c0s1", "c1s0"]
    assert list(results.measured["value"]) == [0.7, 0.7, 0.7 + 0.1] and set(results.measured["count"]) == {40}
    assert "loss" in results.scores.columns and math.isnan(results.scores.loc["c1s1", "test.accuracy"])
    # of two runs of one cell the newest counts
    tags = {"ablate.cell": "c0s0", "ablate.status": "failed"}
    later = client.create_run(results.experiment_id, start_time=10**14, tags=tags)
    assert load("small", uri).cells["c0s0"].run_id == later.info.run_id


LOSSES = {"axes": {"loss": ["ce+supcon", "rdrop"]}}
TOKENS = {"loss": "ce+supcon", "view": "topk_tokens", "axes": {"k": [2, 3], "alpha": [0.2, 0.5]}}
SECTIONS = [
    {"title": "Losses", "rows": {"ce": {}, "{loss}": LOSSES}},
    {"title": "Tokens", "rows": {"ce": {}, "k={k} · α={alpha}": TOKENS}},
]


def written(home: Path, **salt: str) -> Results:
    settings = synthetic.experiment(2).model_dump(mode="json") | {"sections": SECTIONS, "seeds": [0, 7]}
    return load("synthetic", synthetic.write(home, Experiment.model_validate(settings), **salt))


@pytest.fixture
def results(home: Path) -> Results:
    return written(home)


def test_there_is_one_line_a_section_row_seed_and_score(results: Results, home: Path):
    frame = tidy(results)
    assert len(frame) == (3 + 5) * 2 * 19 and set(frame["variant"]) == {""}
    row = frame[(frame["label"] == "k=3 · α=0.5") & (frame["seed"] == 7) & (frame["score"] == "test.accuracy")]
    (found,) = row.to_dict("records")
    cell = results.study.sections[1].rows[4].cells[1]
    assert (found["section"], found["row"], found["cell"], found["status"]) == ("Tokens", 4, cell, "finished")
    assert (found["axis.k"], found["axis.alpha"], found["seconds"], found["count"]) == (3, 0.5, 40.0, 600)
    assert found["value"] == results.scores.loc[cell, "test.accuracy"] and found["higher_is_better"] is True
    assert found["standard_error"] == pytest.approx((found["value"] * (1 - found["value"]) / 600) ** 0.5)
    assert pd.isna(frame.loc[frame["section"] == "Tokens", "axis.loss"]).all()
    assert frame["section"].is_monotonic_increasing and list(frame["row"].unique()[:3]) == [0, 1, 2]
    directions = frame.drop_duplicates("score").set_index("score")["higher_is_better"]
    assert not directions["test.ece"] and pd.isna(directions["test.spread"])

    # variants have a column, and what is missing a row
    cell, gone = results.study.sections[0].rows[1].cells
    wider = results.scores.assign(**{"mean/whiten:8/test.svm_accuracy": 0.5}).drop(index=gone)
    held = {name: run for name, run in results.cells.items() if name != gone}
    frame = tidy(dataclasses.replace(results, scores=wider, cells=held))
    other = frame[(frame["cell"] == cell) & (frame["variant"] == "mean/whiten:8")]
    assert list(other["score"]) == ["test.svm_accuracy"] and list(other["value"]) == [0.5]
    (hole,) = frame[(frame["cell"] == gone) & (frame["section"] == "Losses")].to_dict("records")
    assert hole["status"] == "missing" and pd.isna(hole["value"]) and pd.isna(hole["score"]) and hole["seed"] == 7
    # the file holds it
    write_csv(tidy(results), home / "results.csv")
    text = pd.read_csv(home / "results.csv")
    assert tidy(results)["value"].equals(text["value"]) and list(tidy(results).columns) == list(text.columns)
