"""Prefect task around tasks/tracking.py: bring MLflow up to a cell."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from contrastive import store
from tasks.tracking import open_tracker, record_cell


@task(name="record", task_run_name="record · {name}", cache_policy=NO_CACHE, persist_result=False)
def record(name: str, cell_id: str, experiment: str, sections: list[str]) -> None:
    """The run of one cell; tracking that fails is repaired by `ablate sync`, and never stops a grid."""
    record_cell(open_tracker(store.home()), experiment, store.run_folder(cell_id), sections)
