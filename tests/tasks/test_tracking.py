"""Runs of MLflow are written once and whole: on SQLite, and on PostgreSQL by several processes of two machines."""

import json
import multiprocessing
import os
import traceback
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from contrastive.errors import UserError
from contrastive.grid import load
from contrastive.grid import plan as plans
from contrastive.grid.identity import evaluation_key
from contrastive.grid.status import MEASURED_OTHERWISE
from contrastive.runs import store
from reports import load as results
from tasks import record, sync, tracking
from tasks.address import TrackingFailed
from tasks.report import build_report
from tests.postgres import databases
from tests.recorded import cell_folder, failed_folder, grid


def runs(client: MlflowClient, name: str = "small") -> list[Run]:
    return list(client.search_runs([tracking.experiment_id(client, name)]))


def steps(client: MlflowClient, run: Run, key: str) -> list[int]:
    return sorted(metric.step for metric in client.get_metric_history(run.info.run_id, key))


def test_recording_twice_changes_nothing(home: Path):
    client, folder = tracking.open_tracker(home), cell_folder("c0s0", "ce", 0, 0.75)
    record.record_cell(client, "small", folder, ["Recipes", "Views"])
    (before,) = runs(client)
    record.record_cell(client, "small", folder, ["Recipes", "Views"])
    (after,) = runs(client)
    assert after.to_dictionary() == before.to_dictionary()
    assert steps(client, after, "loss") == steps(client, after, "gradient_norm") == list(range(30))
    assert after.info.status == "FINISHED" and after.data.metrics["test.accuracy"] == 0.75
    assert after.data.tags["section"] == "Recipes | Views" and after.data.params["loss"] == "ce"
    assert list(sync.differences_of_run(client, after, folder)) == []


def test_a_cell_that_failed_and_then_finished_carries_no_old_error(home: Path):
    client = tracking.open_tracker(home)
    record.record_cell(client, "small", failed_folder("c0s0", "ce", 0, "loss is NaN at step 3", "diverged"), [])
    (failed,) = runs(client)
    assert failed.info.status == "FAILED" and failed.data.tags["ablate.status"] == "diverged"
    assert failed.data.tags["ablate.error"] == "loss is NaN at step 3"
    (store.run_folder("c0s0") / "FAILED.json").unlink()
    record.record_cell(client, "small", cell_folder("c0s0", "ce", 0, 0.75), [])
    (finished,) = runs(client)
    assert finished.info.status == "FINISHED" and "ablate.error" not in finished.data.tags
    assert steps(client, finished, "loss") == list(range(30))


def test_more_points_and_scores_than_a_call_takes_values_that_are_no_numbers_and_folders_of_a_user(home: Path):
    client, folder = tracking.open_tracker(home), cell_folder("c0s0", "ce", 0, 0.75, steps=1100)
    with open(folder / "metrics.jsonl", "a") as file:
        file.write('{"step": 1100, "loss": 1.0, "gradient_norm": NaN, "excess.supcon": Infinity}\n')
    document = store.read_json(folder / "config.json")
    document["cell"]["data"]["source"] = "file:/home/somebody/secret/" + "x" * 9000
    store.write_json(folder / "config.json", document)
    many = [{"name": f"layer:{i}:cls/test.ari", "value": i, "higher_is_better": True, "count": 9} for i in range(2100)]
    store.write_json(folder / "scores.json", {"version": 2, "key": "k", "scores": many})
    store.mark_finished(folder, "DONE")
    record.record_cell(client, "small", folder, [])
    (run,) = runs(client)
    assert steps(client, run, "loss") == list(range(1101)) and steps(client, run, "gradient_norm") == list(range(1100))
    assert "excess.supcon" not in run.data.metrics and run.data.params["data.source"] == "file:" + "x" * 5995
    assert sum("test.ari" in name for name in run.data.metrics) == 2100
    assert list(sync.differences_of_run(client, run, folder)) == []


def test_an_experiment_deleted_in_mlflow_is_a_clear_error(home: Path):
    client = tracking.open_tracker(home)
    client.delete_experiment(tracking.experiment_id(client, "small"))
    with pytest.raises(UserError, match="experiment small was deleted; restore it"):
        record.record_cell(client, "small", cell_folder("c0s0", "ce", 0, 0.75), [])


def test_the_grid_is_one_run_whose_artifact_is_the_last_document(home: Path):
    client, document = tracking.open_tracker(home), grid()
    record.record_grid(client, "small", document)
    record.record_grid(client, "small", document | {"failed": {"c0s0": "code: x"}})
    (run,) = runs(client)
    held = json.loads(Path(client.download_artifacts(run.info.run_id, "grid.json")).read_text())
    assert held["failed"] == {"c0s0": "code: x"}


UNUSABLE = ["postgresqlx://me:hush-hush@there/db", "http://me:hush-hush@127.0.0.1:1"]


@pytest.mark.parametrize("uri", UNUSABLE)
def test_a_tracker_that_cannot_be_used_is_said_in_one_line_without_its_password(
    uri: str, home: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    folder = cell_folder("c0s0", "ce", 0, 0.75)
    with pytest.raises(TrackingFailed, match="could not be used: .*Results are safe") as raised:
        record.record_cell(tracking.open_tracker(home), "small", folder, [])
    assert "\n" not in str(raised.value) and "hush-hush" not in "".join(traceback.format_exception(raised.value))
    assert "http:" not in uri or "http://me:***@127.0.0.1:1/api" in str(raised.value)


def test_what_the_report_itself_cannot_do_is_not_blamed_on_mlflow(home: Path):
    client = tracking.open_tracker(home)
    record.record_cell(client, "small", cell_folder("c0s0", "ce", 0, 0.75), [])
    record.record_grid(client, "small", grid())
    (home / "reports").write_text("a file in the place of the folder")
    with pytest.raises(NotADirectoryError):
        build_report("small")


def measured(folder: Path, key: str, accuracy: float) -> None:
    """As an evaluation with other settings leaves it."""
    scores = store.read_json(folder / "scores.json")
    scores["scores"][0]["value"] = accuracy
    store.write_json(folder / "scores.json", scores | {"key": key})
    store.mark_finished(folder, "DONE")


def test_scores_of_other_settings_are_never_shown_as_those_asked_for(home: Path):
    client, folder = tracking.open_tracker(home), cell_folder("c0s0", "ce", 0, 0.75)
    measured(folder, "five folds", 0.7)
    record.record_cell(client, "small", folder, [], "five folds")
    record.record_cell(client, "small", folder, [], "ten folds")
    (run,) = runs(client)
    assert run.data.tags["ablate.status"] == "unfinished" and "test.accuracy" not in run.data.metrics
    assert run.data.tags["ablate.error"] == MEASURED_OTHERWISE
    store.write_json(folder / "FAILED.json", {"kind": "config", "error": "20 folds need 20 texts a class"})
    record.record_cell(client, "small", folder, [], "twenty folds")
    (run,) = runs(client)
    assert (run.data.tags["ablate.status"], run.info.status) == ("failed", "FAILED")
    assert "20 folds" in run.data.tags["ablate.error"] and "test.accuracy" not in run.data.metrics
    assert "scores.json" not in {file.path for file in client.list_artifacts(run.info.run_id)}


def test_a_folder_that_another_experiment_measured_otherwise_is_left_alone_by_sync(home: Path):
    planned = load.load_experiment(write_experiment(home))
    plan = plans.make_plan(planned)
    (status,) = plan.statuses.values()
    own, folder = evaluation_key(planned.experiment.evaluation), cell_folder(status.id, "ce", 0, 0.75)
    client = tracking.open_tracker(home)
    measured(folder, own, 0.75)
    sync.sync(plan)
    measured(folder, "another", 0.5)
    assert [line.partition(": ")[2] for line in sync.audit(plan)] == [MEASURED_OTHERWISE]
    sync.sync(plan)
    (run,) = [run for run in runs(client, planned.experiment.name) if "ablate.cell" in run.data.tags]
    assert run.data.metrics["test.accuracy"] == 0.75 and run.data.tags["ablate.status"] == "finished"


def write_experiment(home: Path) -> Path:
    (home / "texts.csv").write_text("text,label\n" + "".join(f"word {i},{'ab'[i % 2]}\n" for i in range(80)))
    path = home / "one.yaml"
    path.write_text(
        f'name: one\ndata: {{source: "file:{home}/texts.csv", train: 20, test: 40}}\n'
        'encoder: {model: "scratch:bert"}\nseeds: [0]\nsections: [{title: Recipes, rows: {ce: {}}}]\n'
    )
    return path


WRITERS = 8


@pytest.fixture(scope="module")
def database(postgres: str) -> str:
    return databases(postgres, "tracking")[0]


@pytest.fixture
def uri(database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", database)
    return database


def record_from_process(uri: str, home: Path, number: int, barrier: object) -> None:
    os.environ |= {"ABLATE_HOME": str(home), "MLFLOW_TRACKING_URI": uri}
    folder = cell_folder(f"c{number}s0", "ce", 0, 0.5 + number / 100, steps=100)
    barrier.wait(120)
    client = tracking.open_tracker(home)
    record.record_cell(client, "small", folder, ["Recipes"])
    record.record_grid(client, "small", grid(labels=tuple(f"row {i}" for i in range(WRITERS))))


@pytest.mark.full
def test_eight_writers_at_once_make_a_run_a_cell(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tracking.open_tracker(tmp_path)  # makes the tables: two machines that do it at once are in each other's way
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tasks.tracking", "tests.recorded"])  # instead of eight imports of MLflow
    barrier = context.Barrier(WRITERS)
    processes = [
        context.Process(target=record_from_process, args=(uri, tmp_path / f"home-{number % 2}", number, barrier))
        for number in range(WRITERS)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(240)
    assert [process.exitcode for process in processes] == [0] * WRITERS
    held = results.load("small", uri)
    assert list(held.cells) == [f"c{i}s0" for i in range(WRITERS)]
    assert list(held.scores["test.accuracy"]) == [0.5 + i / 100 for i in range(WRITERS)]
    client = tracking.open_tracker(tmp_path)
    assert len(record.grid_runs(client, "small")) <= 2  # each machine may have made one at the same moment
    record.record_grid(client, "small", grid(labels=tuple(f"row {i}" for i in range(WRITERS))))
    runs = client.search_runs([tracking.experiment_id(client, "small")])
    assert sorted(run.info.status for run in runs) == ["FINISHED"] * (WRITERS + 1)  # a run a cell, and the grid
    for run in runs:
        if cell := run.data.tags.get("ablate.cell"):
            monkeypatch.setenv("ABLATE_HOME", str(tmp_path / f"home-{int(cell[1]) % 2}"))
            assert not list(sync.differences_of_run(client, run, tracking.store.run_folder(cell)))
