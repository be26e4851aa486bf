"""Where MLflow and the run folders differ: `sync` brings MLflow up to the folders, `audit` says what is left."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Run

from contrastive.errors import UserError
from contrastive.evaluation.grid_references import known_references
from contrastive.grid.identity import evaluation_key
from contrastive.grid.plan import Plan, document
from contrastive.grid.status import MEASURED_OTHERWISE, outcome
from contrastive.runs import claim, store
from contrastive.runs.recorded import Stopping
from reports.mlflow_runs import Artifacts, all_runs
from tasks import database
from tasks.address import masked, tracking_uri
from tasks.record import (
    EVALUATION,
    artifacts_of,
    curve_rows,
    foreign_scores,
    is_prefix,
    params_of,
    record_cell,
    record_grid,
    wanted_tags,
)
from tasks.settle import settle
from tasks.tracking import TrackingFailed, all_of_cells, experiment_id, find_run, in_words, open_tracker, remove_runs


@in_words()
def sync(plan: Plan, document: dict[str, Any]) -> str:
    """Bring MLflow up to the run folders of an experiment, also to those that other experiments have trained."""
    client, name, key = open_tracker(store.home()), plan.experiment.name, evaluation_key(plan.experiment.evaluation)
    held = {run.data.tags.get("ablate.cell"): run for run in all_runs(client, experiment_id(client, name))}
    count = 0
    for cell, status in plan.statuses.items():
        folder, sections = store.run_folder(status.id), plan.sections[cell]
        if not folder.exists():
            continue
        count += 1
        run = held.get(status.id)
        own = run is not None and run.data.tags.get(EVALUATION) == key
        if own and outcome(folder, key)[1] == MEASURED_OTHERWISE:
            continue  # for another experiment since; what the run holds was measured for this one
        if (
            run is None
            or run.info.status == "RUNNING"
            or not wanted_tags(folder, sections, key).items() <= run.data.tags.items()
        ):
            record_cell(client, name, folder, sections, key)
    record_grid(client, name, document)
    return f"{count} of {len(plan.statuses)} cells are in MLflow ({masked(tracking_uri(store.home()))})"


@in_words()
def audit(plan: Plan) -> list[str]:
    """Where run folders are damaged, or MLflow says something else than they do."""
    client, differing, key = open_tracker(store.home()), [], evaluation_key(plan.experiment.evaluation)
    for cell, status in plan.statuses.items():
        folder, name = store.run_folder(status.id), plan.name(cell)
        damage = store.damage(folder, "DONE", thorough=True)
        if damage and store.failure(folder) is None:
            differing.append(f"{status.id} {name}: not finished: {damage}")
            continue
        if outcome(folder, key)[1] == MEASURED_OTHERWISE:
            differing.append(f"{status.id} {name}: {MEASURED_OTHERWISE}")
            continue
        run = find_run(client, plan.experiment.name, "ablate.cell", status.id)
        if run is None:
            differing.append(f"{status.id} {name}: not in MLflow")
            continue
        differing += [
            f"{status.id} {name}: {difference}" for difference in differences_of_run(client, run, folder, key)
        ]
    return differing


def differences_of_run(client: MlflowClient, run: Run, folder: Path, key: str = "") -> Iterator[str]:
    status, _ = outcome(folder, key)
    if run.data.tags.get("ablate.status") != status:
        yield f"MLflow says {run.data.tags.get('ablate.status', 'running')}, the folder is {status}"
    rows = curve_rows(claim.at_work(folder))
    if len(client.get_metric_history(run.info.run_id, "loss")) != len(rows) or not is_prefix(
        client, run.info.run_id, rows
    ):
        yield "the loss curve in MLflow is not that of metrics.jsonl"
    if status == "finished":
        scores = store.read_json(folder / "scores.json")["scores"]
        yield from (f"MLflow holds {name}, which the folder has not" for name in foreign_scores(run, scores))
        for score in scores:
            held = run.data.metrics.get(score["name"])
            if held != score["value"]:
                yield f"{score['name']} is {score['value']}, and MLflow holds {held}"
    if {param.key: param.value for param in params_of(folder)} != run.data.params:
        yield "the settings in MLflow are not those of config.json"
    yield from different_artifacts(client, run, artifacts_of(folder, status == "finished"))


def different_artifacts(client: MlflowClient, run: Run, files: Mapping[str, Path]) -> Iterator[str]:
    """Files that MLflow lacks, or holds with other bytes than the folder."""
    artifacts = Artifacts(client)
    for name, path in files.items():
        held = artifacts.path(run.info.run_id, run.info.artifact_uri or "", name)
        if held is None:
            yield f"MLflow lacks {name}"
        elif not held.is_file() or store.digest_file(held) != store.digest_file(path):
            yield f"{name} in MLflow is not that of the folder"


def set_back_damage(plan: Plan) -> Iterator[str]:
    """Take its marker from each stage, and from each folder of the cache, whose files are not the ones it left."""
    for marker, why in damaged_cache():
        store.remove(marker)
        yield why
    for cell, status in plan.statuses.items():
        if why := claim.set_back(store.run_folder(status.id)):
            yield f"{status.id} {plan.name(cell)}: {why}"


def damaged_cache() -> Iterator[tuple[Path, str]]:
    """Markers of the folders of the cache that are not what they were, and why."""
    for marker in sorted((store.home() / "cache").rglob("DONE")):
        if why := store.damage(marker.parent, "DONE", thorough=True):
            yield marker, f"{marker.parent.relative_to(store.home())}: {why}"


@contextmanager
def or_set_aside(home: Path) -> Iterator[None]:
    """A database with which MLflow can do nothing, although it could be written to, holds nonsense."""
    try:
        yield
    except TrackingFailed as failed:
        path, of_file = database.file_of(home), isinstance(failed.__context__, OSError)  # one of a run folder, say
        if path is None or of_file or "disk is full" in str(failed) or not database.usable(path):
            raise
        raise UserError(
            f"{failed}. The database lies at {database.set_aside(path)} now: give the same command again, which makes "
            "a new one from the run folders"
        ) from failed


def mend_tracking(plan: Plan, stopping: Stopping | None) -> str:
    """Replace the MLflow runs that say something else than their folders, and bring all up to them."""
    home, key = store.home(), evaluation_key(plan.experiment.evaluation)
    database.set_aside_if_damaged(home, thorough=True)
    with or_set_aside(home):
        client = open_tracker(home)
        settle(home)
        for cell, runs in all_of_cells(client, plan.experiment.name).items():
            folder = store.run_folder(cell)
            if len(runs) > 1 or not store.finished(folder) or any(differences_of_run(client, runs[0], folder, key)):
                remove_runs(client, runs)
        return sync(plan, document(plan, known_references(plan), stopping))
