"""`ablate audit --mend`: whatever is not what it was when it was finished is set back, so that a run does it again."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from contrastive.cells.identity import evaluation_key
from contrastive.cells.plan import Plan, document
from contrastive.errors import UserError
from contrastive.evaluation.grid_references import known_references
from contrastive.runs import claim, store
from contrastive.runs.recorded import Stopping
from tasks import database
from tasks.settle import settle
from tasks.sync import differences_of_run, sync
from tasks.tracking import TrackingFailed, all_of_cells, open_tracker, remove_runs


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
