"""Runs of MLflow that say RUNNING although nobody works on their cell, for whoever did was killed: they are KILLED.

`python -m tasks.settle` does it for the home that ABLATE_HOME names.
"""

import logging
from collections.abc import Iterator
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Run, ViewType

from contrastive.runs import claim, store
from tasks.database import file_of
from tasks.tracking import RECORDED, experiment_id, find_run, in_words, open_tracker

CELLS = "attributes.status = 'RUNNING' AND tags.`ablate.kind` = 'cell'"
AT_ONCE = 100  # experiments a question

logger = logging.getLogger(__name__)


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


def end_run_of(cell_id: str, experiment: str) -> None:
    """Say of the run of a cell that was stopped that it no longer runs."""
    try:
        client = open_tracker(store.home())
        with in_words(), store.locked(store.home() / "locks" / "mlflow"):  # finding a run makes its experiment
            run = find_run(client, experiment, "ablate.cell", cell_id)
            if run is not None and run.info.status == "RUNNING":
                end_run(client, run)
    except Exception as error:  # whatever a tracking server may raise
        logger.warning("the MLflow run of %s stays open until the next run: %s", cell_id, error)


def settle(home: Path) -> int:
    """How many runs were ended: of cells of this home alone, also where a newer run has replaced them."""
    if file_of(home) is not None and not (home / "mlflow.db").exists():
        return 0
    client, own = open_tracker(home), file_of(home) is not None
    with in_words(), store.locked(home / "locks" / "mlflow"):
        left = [run for run in running(client) if left_alone(home / "runs" / run.data.tags["ablate.cell"], own)]
        for run in left:
            end_run(client, run)
    return len(left)


def running(client: MlflowClient) -> list[Run]:
    """Also those in the trash, and of experiments that are there."""
    runs: list[Run] = []
    for experiments in pages_of_experiments(client):
        token = None
        while True:
            page = client.search_runs(experiments, CELLS, ViewType.ALL, 1000, page_token=token)
            runs += [run for run in page if "ablate.cell" in run.data.tags]
            token = page.token
            if not token:
                break
    return runs


def pages_of_experiments(client: MlflowClient) -> Iterator[list[str]]:
    token = None
    while True:
        page = client.search_experiments(max_results=AT_ONCE, page_token=token)
        if page:
            yield [experiment.experiment_id for experiment in page]
        token = page.token
        if not token:
            return


def left_alone(folder: Path, own: bool) -> bool:
    """Whether nobody works on a cell. On a server that others use, a cell without a folder here may be theirs."""
    return (own or folder.exists()) and not claim.is_held(folder)


def end_run(client: MlflowClient, run: Run) -> None:
    """Nothing can be told of a run in the trash, so that it is taken out for a moment."""
    deleted = run.info.lifecycle_stage == "deleted"
    if deleted:
        client.restore_run(run.info.run_id)
    client.set_tag(run.info.run_id, RECORDED, "")  # whatever was noted before, it is not complete
    client.set_terminated(run.info.run_id, "KILLED")
    if deleted:
        client.delete_run(run.info.run_id)


if __name__ == "__main__":
    settle(store.home())
