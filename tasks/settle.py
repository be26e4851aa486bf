"""Close abandoned MLflow runs: those that say RUNNING although the process that trained the cell was killed."""

from contrastive.runs import claim, store
from tasks.address import file_of
from tasks.tracking import as_tracking_error, end_runs, experiment_id, find_runs, open_tracker, or_warning

CELLS = "attributes.status = 'RUNNING' AND tags.`ablate.kind` = 'cell'"
MOST = 50_000  # most results of one MLflow search


def prepare_tracking(experiment: str) -> None:
    """Create MLflow's database and experiment if they are new, and close abandoned runs.

    Called while workers import, so that no cell waits for it.
    """
    with or_warning("MLflow is not ready; `ablate sync` will record the cells"):
        client = open_tracker(store.home())
        with store.locked(store.home() / "locks" / "mlflow"):
            experiment_id(client, experiment)
        close_abandoned_runs()


def end_run_of(cell_id: str, experiment: str) -> None:
    """End the MLflow run of a cell that was stopped."""
    with or_warning(f"the MLflow run of {cell_id} stays open until the next run"):
        client = open_tracker(store.home())
        with store.locked(store.home() / "locks" / "mlflow"):  # finding a run creates its experiment
            end_runs(client, find_runs(client, experiment, "ablate.cell", cell_id))


def close_abandoned_runs() -> None:
    """End the abandoned runs of this home's cells."""
    home, database = store.home(), file_of(store.home())
    if database is not None and not database.exists():
        return
    client = open_tracker(home)
    with as_tracking_error(), store.locked(home / "locks" / "mlflow"):
        experiments = [experiment.experiment_id for experiment in client.search_experiments(max_results=MOST)]
        running = client.search_runs(experiments, CELLS, max_results=MOST)
        is_shared = database is None
        end_runs(client, [run for run in running if is_abandoned(run.data.tags["ablate.cell"], is_shared)])


def is_abandoned(cell_id: str, is_shared: bool) -> bool:
    """Return whether nobody works on a cell. On a shared server, a cell without a folder here may belong to others."""
    folder = store.run_folder(cell_id)
    return (folder.exists() or not is_shared) and not claim.is_held(folder)
