"""Prefect task around tasks/tracking.py: bring MLflow up to a cell."""

import logging

from prefect import task
from prefect.cache_policies import NO_CACHE

from contrastive.runs import store
from tasks.settle import settle
from tasks.tracking import RECORDED, experiment_id, find_run, in_words, open_tracker, record_cell

logger = logging.getLogger(__name__)


@task(name="record", task_run_name="record · {name}", cache_policy=NO_CACHE, persist_result=False)
def record(name: str, cell_id: str, experiment: str, sections: list[str], key: str) -> None:
    """The run of one cell; tracking that fails is repaired by `ablate sync`, and never stops a grid."""
    record_cell(open_tracker(store.home()), experiment, store.run_folder(cell_id), sections, key)


def ready(experiment: str) -> None:
    """Make MLflow's database and experiment where they are new, while workers import: the cells would wait for it.

    And end the runs that an earlier flow left open when it was killed.
    """
    try:
        client = open_tracker(store.home())
        with in_words(), store.locked(store.home() / "locks" / "mlflow"):
            experiment_id(client, experiment)
        settle(store.home())
    except Exception as error:  # whatever a tracking server may raise
        logger.warning("MLflow is not ready, `ablate sync` will bring the cells there: %s", error)


def close(cell_id: str, experiment: str) -> None:
    """Say of the run of a cell that was stopped that it no longer runs."""
    try:
        client = open_tracker(store.home())
        with in_words(), store.locked(store.home() / "locks" / "mlflow"):  # finding a run makes its experiment
            run = find_run(client, experiment, "ablate.cell", cell_id)
            if run is not None and run.info.status == "RUNNING":
                client.set_tag(run.info.run_id, RECORDED, "")  # whatever was noted before, it is not complete
                client.set_terminated(run.info.run_id, "KILLED")
    except Exception as error:  # whatever a tracking server may raise
        logger.warning("the MLflow run of %s stays open until the next run: %s", cell_id, error)
