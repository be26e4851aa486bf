"""Where MLflow and the run folders differ: `sync` brings MLflow up to the folders, `audit` says what is left."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Run

from contrastive.errors import UserError
from contrastive.evaluation.grid_references import known_references
from contrastive.grid.identity import evaluation_key
from contrastive.grid.plan import Plan, grid_document
from contrastive.grid.status import MEASURED_OTHERWISE, outcome
from contrastive.runs import claim, store
from contrastive.runs.recorded import Stopping
from reports.mlflow_runs import Artifacts
from tasks import address
from tasks.address import masked, tracking_uri
from tasks.record import (
    ENDED,
    EVALUATION,
    SCORE,
    losses,
    losses_held,
    quick_tags,
    record_cell,
    record_grid,
    wanted_run,
)
from tasks.settle import close_abandoned_runs
from tasks.tracking import TrackingFailed, as_tracking_error, open_tracker, remove_runs, runs_of_cells


@as_tracking_error()
def sync(plan: Plan, document: dict[str, Any], *, thorough: bool = False) -> str:
    """Bring MLflow up to the run folders of an experiment, also to those that other experiments have trained.

    A run with the mark of its folder is left as it is; `thorough`: only where all that it holds is that of the folder.
    """
    client, name, key = open_tracker(store.home()), plan.experiment.name, evaluation_key(plan.experiment.evaluation)
    held, count = runs_of_cells(client, name), 0
    for cell, status in plan.statuses.items():
        folder, sections, runs = store.run_folder(status.id), plan.sections[cell], held.get(status.id, [])
        if not folder.exists():
            continue
        count += 1
        if thorough and not (len(runs) == 1 and store.finished(folder) and agrees(client, runs[0], folder, key)):
            remove_runs(client, runs)
            runs = []
        elif runs and runs[0].data.tags.get(EVALUATION) == key and outcome(folder, key)[1] == MEASURED_OTHERWISE:
            continue  # for another experiment since; what the run holds was measured for this one
        tags = quick_tags(folder, sections, key).items()
        if len(runs) != 1 or runs[0].info.status not in ENDED or not tags <= runs[0].data.tags.items():
            record_cell(client, name, folder, sections, key)
    record_grid(client, name, document)
    return f"{count} of {len(plan.statuses)} cells are in MLflow ({masked(tracking_uri(store.home()))})"


@as_tracking_error()
def audit(plan: Plan) -> list[str]:
    """Where run folders are damaged, or MLflow says something else than they do."""
    client, differing, key = open_tracker(store.home()), list[str](), evaluation_key(plan.experiment.evaluation)
    held = runs_of_cells(client, plan.experiment.name)
    for cell, status in plan.statuses.items():
        folder, runs = store.run_folder(status.id), held.get(status.id)
        damage = store.damage(folder, "DONE", thorough=True)
        if damage and store.failure(folder) is None:
            found = [f"not finished: {damage}"]
        elif outcome(folder, key)[1] == MEASURED_OTHERWISE:
            found = [MEASURED_OTHERWISE]
        else:
            found = [*differences_of_run(client, runs[0], folder, key)] if runs else ["not in MLflow"]
        differing += [f"{status.id} {plan.name(cell)}: {difference}" for difference in found]
    return differing


def agrees(client: MlflowClient, run: Run, folder: Path, key: str) -> bool:
    return next(differences_of_run(client, run, folder, key), None) is None


def differences_of_run(client: MlflowClient, run: Run, folder: Path, key: str = "") -> Iterator[str]:
    wanted, metrics, tags = wanted_run(folder, key), run.data.metrics, run.data.tags
    if tags.get("ablate.status") != wanted.status:
        yield f"MLflow says {tags.get('ablate.status', 'running')}, the folder is {wanted.status}"
    if losses_held(client, run) != losses(wanted.rows):
        yield "the loss curve in MLflow is not that of metrics.jsonl"
    if wanted.status == "finished":
        for name in sorted(set(filter(SCORE.match, metrics)) - wanted.scores.keys()):
            yield f"MLflow holds {name}, which the folder has not"
        for name, value in wanted.scores.items():
            if metrics.get(name) != value:
                yield f"{name} is {value}, and MLflow holds {metrics.get(name)}"
    if run.data.params != wanted.params:
        yield "the settings in MLflow are not those of config.json"
    yield from different_artifacts(client, run, wanted.files)


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
        if why := claim.invalidate_damaged(store.run_folder(status.id)):
            yield f"{status.id} {plan.name(cell)}: {why}"


def damaged_cache() -> Iterator[tuple[Path, str]]:
    """Markers of the folders of the cache that are not what they were, and why."""
    for marker in sorted((store.home() / "cache").rglob("DONE")):
        if why := store.damage(marker.parent, "DONE", thorough=True):
            yield marker, f"{marker.parent.relative_to(store.home())}: {why}"


def mend_tracking(plan: Plan, stopping: Stopping | None) -> str:
    """Replace the MLflow runs that say something else than their folders, and bring all up to them.

    A database with which MLflow can do nothing, although it could be written to, holds nonsense, and is set aside.
    """
    home = store.home()
    address.set_aside_if_damaged(home, thorough=True)
    try:
        close_abandoned_runs(home)
        return sync(plan, grid_document(plan, known_references(plan), stopping), thorough=True)
    except TrackingFailed as failed:
        path, of_file = address.file_of(home), isinstance(failed.__context__, OSError)  # one of a run folder, say
        if path is None or of_file or "disk is full" in str(failed) or not address.usable(path):
            raise
        raise UserError(
            f"{failed}. The database lies at {address.set_aside(path)} now: give the same command again, which makes "
            "a new one from the run folders"
        ) from failed
