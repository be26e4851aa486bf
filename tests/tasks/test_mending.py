"""What is damaged or left open is mended: the database of MLflow, its runs and files, and what a cell left."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from mlflow.entities import Run, ViewType

from contrastive.grid import load
from contrastive.grid import plan as plans
from contrastive.grid.identity import evaluation_key
from contrastive.grid.plan import Plan
from contrastive.runs import claim, store
from flows import upkeep
from reports.load import load as load_results
from tasks import address, record, sync, tracking
from tasks.address import TrackingFailed
from tasks.report import build_report
from tests.recorded import cell_folder
from tests.tasks.test_tracking import measured, write_experiment
from tests.tiers import rest_is_full


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process of its own."""
    monkeypatch.setattr(tracking, "_open", {})
    store._digest.cache_clear()


@pytest.fixture
def plan(home: Path) -> Plan:
    """One finished cell that MLflow knows."""
    planned = load.load_experiment(write_experiment(home))
    made = plans.make_plan(planned)
    (status,) = made.statuses.values()
    folder = cell_folder(status.id, "ce", 0, 0.75)
    measured(folder, evaluation_key(planned.experiment.evaluation), 0.75)
    sync.sync(made)
    assert sync.audit(made) == []
    return made


def folder_of(plan: Plan) -> Path:
    (status,) = plan.statuses.values()
    return store.run_folder(status.id)


def run_of(plan: Plan) -> Run:
    client = tracking.open_tracker(store.home())
    ((run,),) = tracking.runs_of_cells(client, plan.experiment.name).values()
    return run


def flip_behind_the_clock(path: Path) -> None:
    before, content = path.stat(), bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    store._digest.cache_clear()


def test_a_damaged_database_is_refused_and_made_again_once_it_is_away(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    place = tmp_path / "other"
    shutil.copytree(store.home(), place, ignore=shutil.ignore_patterns("other"))
    monkeypatch.setenv("ABLATE_HOME", str(place))  # another address than what MLflow's pool still has open
    os.truncate(place / "mlflow.db", (place / "mlflow.db").stat().st_size // 2)
    for command in (lambda: build_report(plan.experiment.name), lambda: sync.sync(plan)):
        with pytest.raises(TrackingFailed, match=r"is damaged: move mlflow.db\* away; `ablate sync EXPERIMENT`"):
            command()
    (place / "mlflow.db").unlink()
    sync.sync(plan)
    assert sync.audit(plan) == []


@pytest.mark.full  # it waits for the lock
def test_a_database_that_is_empty_or_locked_is_not_damaged(plan: Plan):
    path = store.home() / "mlflow.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert address.is_sound(path)
    path.write_bytes(b"")
    address.refuse_damaged(store.home())


def test_what_an_edited_file_shows_reaches_mlflow_once_its_cells_have_run(plan: Plan):
    store.mark_finished(folder_of(plan), "TRAINED")
    file = store.home() / "one.yaml"
    written = file.read_text()
    file.write_text(written + "description: Two questions.\n")
    assert upkeep.apply_file(file) == "one"
    uri = tracking.tracking_uri(store.home())
    assert load_results("one", uri).study.description == "Two questions."
    file.write_text(written.replace("[0]", "[0, 1]"))  # a cell that has not run
    assert upkeep.apply_file(file) == "one" and load_results("one", uri).study.sections[0].rows[0].seeds == [0]


def test_a_flipped_bit_behind_the_clock_is_set_back(plan: Plan):
    flip_behind_the_clock(folder_of(plan) / "scores.json")
    assert plans.make_plan(plan.resolved).to_do, "scores that cannot be read are measured again anyway"
    assert [line.partition(": ")[2] for line in sync.reset_damaged(plan)] == ["scores.json was changed"]
    assert not (folder_of(plan) / "DONE").exists()


def test_a_folder_of_the_cache_that_is_damaged_is_made_again(plan: Plan):
    made = store.home() / "cache" / "tokens" / "abc"
    made.mkdir(parents=True)
    (made / "ids").write_text("whole")
    store.mark_finished(made, "DONE")
    assert list(sync.reset_damaged(plan)) == []
    flip_behind_the_clock(made / "ids")
    assert list(sync.reset_damaged(plan)) == ["cache/tokens/abc: ids was changed"] and not store.finished(made)


def changed_score(plan: Plan) -> None:
    tracking.open_tracker(store.home()).log_metric(run_of(plan).info.run_id, "test.accuracy", 0.5)


def changed_curve(plan: Plan) -> None:
    tracking.open_tracker(store.home()).log_metric(run_of(plan).info.run_id, "loss", 9.0, step=1000)


def changed_params(plan: Plan) -> None:
    tracking.open_tracker(store.home()).log_param(run_of(plan).info.run_id, "brightness", "1")


def deleted_run(plan: Plan) -> None:
    tracking.open_tracker(store.home()).delete_run(run_of(plan).info.run_id)


def damaged_artifact(plan: Plan) -> None:
    (Path(run_of(plan).info.artifact_uri.removeprefix("file://")) / "scores.json").write_text("{")


def missing_artifact(plan: Plan) -> None:
    (Path(run_of(plan).info.artifact_uri.removeprefix("file://")) / "picture.npz").unlink()


def forged_done(plan: Plan) -> None:
    """Better scores in the folder, with a marker that has their digest."""
    measured(folder_of(plan), evaluation_key(plan.experiment.evaluation), 0.99)


HARMS = (changed_score, deleted_run, forged_done)


@pytest.mark.parametrize(
    "harm", rest_is_full([*HARMS, changed_curve, changed_params, damaged_artifact, missing_artifact], HARMS)
)
def test_what_audit_finds_in_mlflow_is_recorded_anew(harm: Callable[[Plan], None], plan: Plan):
    harm(plan)
    assert sync.audit(plan) != []
    sync.mend_tracking(plan, None)
    assert sync.audit(plan) == []


def statuses_in_mlflow(plan: Plan) -> list[tuple[str, str]]:
    client = tracking.open_tracker(store.home())
    found = client.search_runs(
        [tracking.experiment_id(client, plan.experiment.name)], "tags.`ablate.kind` = 'cell'", ViewType.ALL
    )
    return sorted((run.info.lifecycle_stage, run.info.status) for run in found)


def left_running(plan: Plan) -> None:
    record.fresh_run(tracking.open_tracker(store.home()), plan.experiment.name, folder_of(plan), [])


def test_a_run_that_nobody_works_on_is_ended_and_one_at_work_is_not(plan: Plan):
    left_running(plan)
    with claim.begin_attempt(folder_of(plan), "train", lambda: False):
        sync.close_abandoned_runs()
        assert statuses_in_mlflow(plan) == [("active", "FINISHED"), ("active", "RUNNING")]
    sync.close_abandoned_runs()
    assert statuses_in_mlflow(plan) == [("active", "FINISHED"), ("active", "KILLED")]


def test_a_run_that_a_kill_left_is_replaced(plan: Plan):
    left_running(plan)
    sync.sync(plan)
    assert statuses_in_mlflow(plan) == [("active", "FINISHED"), ("deleted", "FINISHED"), ("deleted", "KILLED")]
    assert sync.audit(plan) == []


def test_of_a_server_that_others_use_only_cells_of_this_home_are_ended(home: Path):
    assert not sync.is_abandoned("theirs", is_shared=True) and sync.is_abandoned("theirs", is_shared=False)
