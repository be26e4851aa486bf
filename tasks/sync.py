"""Compare MLflow with the run folders: `sync` updates MLflow, `audit` lists differences and damage."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Run

from contrastive.config.cell import Cell
from contrastive.errors import UserError
from contrastive.evaluation.grid_references import known_references
from contrastive.grid.identity import evaluation_key
from contrastive.grid.plan import Plan, recorded_grid
from contrastive.grid.status import MEASURED_OTHERWISE, Status, outcome
from contrastive.runs import claim, store
from contrastive.runs.recorded import Stopping
from reports.load import Artifacts
from tasks import address
from tasks.address import masked, tracking_uri
from tasks.record import ENDED, EVALUATION, SCORE, losses, losses_held, quick_tags, record_cell, record_grid, wanted_run
from tasks.settle import close_abandoned_runs
from tasks.tracking import TrackingFailed, as_tracking_error, open_tracker, remove_runs, runs_of_cells


@as_tracking_error()
def sync(
    plan: Plan, stopping: Stopping | None = None, cells: Mapping[Cell, Status] | None = None, *, thorough: bool = False
) -> str:
    """Update MLflow to the run folders of an experiment, including cells that other experiments have trained.

    `stopping`: the record of a study. `cells`: those to record, all if None. A run with the mark of its folder is kept;
    with `thorough`, only if all its content equals the folder's.
    """
    client, name, key = open_tracker(store.home()), plan.experiment.name, evaluation_key(plan.experiment.evaluation)
    held, count = runs_of_cells(client, name), 0
    for cell, status in (plan.statuses if cells is None else cells).items():
        folder, sections, runs = store.run_folder(status.id), plan.resolved.titles[cell], held.get(status.id, [])
        if not folder.exists():
            continue
        count += 1
        same = len(runs) == 1 and store.finished(folder)
        if thorough and not (same and not any(differences_of_run(client, runs[0], folder, key))):
            remove_runs(client, runs)
            runs = []
        elif runs and runs[0].data.tags.get(EVALUATION) == key and outcome(folder, key)[1] == MEASURED_OTHERWISE:
            continue  # evaluated for another experiment since; the run holds the scores of this one
        tags = quick_tags(folder, sections, key).items()
        if len(runs) != 1 or runs[0].info.status not in ENDED or not tags <= runs[0].data.tags.items():
            record_cell(client, name, folder, sections, key)
    record_grid(client, name, recorded_grid(plan, known_references(plan), stopping).document())
    return f"{count} of {len(plan.statuses)} cells are in MLflow ({masked(tracking_uri(store.home()))})"


@as_tracking_error()
def audit(plan: Plan) -> list[str]:
    """List damaged run folders, and differences between MLflow and the folders."""
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


def differences_of_run(client: MlflowClient, run: Run, folder: Path, key: str = "") -> Iterator[str]:
    wanted, metrics, tags = wanted_run(folder, key), run.data.metrics, run.data.tags
    if tags.get("ablate.status") != wanted.status:
        yield f"MLflow says {tags.get('ablate.status', 'running')}, the folder is {wanted.status}"
    if losses_held(client, run) != losses(wanted.rows):
        yield "the loss curve in MLflow differs from metrics.jsonl"
    if wanted.status == "finished":
        for name in sorted(set(filter(SCORE.match, metrics)) - wanted.scores.keys()):
            yield f"MLflow has {name}, which is not in the folder"
        for name, value in wanted.scores.items():
            if metrics.get(name) != value:
                yield f"{name} is {value} in the folder and {metrics.get(name)} in MLflow"
    if run.data.params != wanted.params:
        yield "the settings in MLflow differ from config.json"
    yield from different_artifacts(client, run, wanted.files)


def different_artifacts(client: MlflowClient, run: Run, files: Mapping[str, Path]) -> Iterator[str]:
    """Yield the files that MLflow lacks, or that differ from the folder's."""
    artifacts = Artifacts(client)
    for name, path in files.items():
        held = artifacts.path(run.info.run_id, run.info.artifact_uri or "", name)
        if held is None:
            yield f"MLflow lacks {name}"
        elif not held.is_file() or store.digest_file(held) != store.digest_file(path):
            yield f"{name} in MLflow differs from the file in the folder"


def reset_damaged(plan: Plan) -> Iterator[str]:
    """Remove the markers of damaged stages and cache folders, which are then computed again; yield the damage."""
    for marker, why in damaged_cache():
        store.remove(marker)
        yield why
    for cell, status in plan.statuses.items():
        if why := claim.invalidate_damaged(store.run_folder(status.id)):
            yield f"{status.id} {plan.name(cell)}: {why}"


def damaged_cache() -> Iterator[tuple[Path, str]]:
    """Yield the marker of each damaged cache folder, and what is damaged."""
    for marker in sorted((store.home() / "cache").rglob("DONE")):
        if why := store.damage(marker.parent, "DONE", thorough=True):
            yield marker, f"{marker.parent.relative_to(store.home())}: {why}"


def mend_tracking(plan: Plan, stopping: Stopping | None) -> str:
    """Replace MLflow runs that differ from their folders, and record missing ones.

    A database that is writable but unusable by MLflow is damaged, and set aside.
    """
    home = store.home()
    address.set_aside_if_damaged(home, thorough=True)
    try:
        close_abandoned_runs()
        return sync(plan, stopping, thorough=True)
    except TrackingFailed as failed:
        path, of_file = address.file_of(home), isinstance(failed.__context__, OSError)  # for example of a run folder
        if path is None or of_file or "disk is full" in str(failed) or not address.accessible(path):
            raise
        raise UserError(
            f"{failed}. The database has been moved to {address.set_aside(path)}: repeat this command to make a new "
            "one from the run folders"
        ) from failed
