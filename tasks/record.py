"""Prefect tasks around tasks/tracking.py: bring MLflow up to a cell, or to the whole grid."""

from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from contrastive import store
from tasks.tracking import open_tracker, record_cell
from tasks.tracking import record_grid as write_grid


@task(name="record", task_run_name="record · {name}", cache_policy=NO_CACHE, persist_result=False)
def record(name: str, cell_id: str, experiment: str, sections: list[str]) -> None:
    """The run of one cell; tracking that fails is repaired by `ablate sync`, and never stops a grid."""
    record_cell(open_tracker(store.home()), experiment, store.run_folder(cell_id), sections)


@task(name="record grid", cache_policy=NO_CACHE, persist_result=False)
def record_grid(experiment: str, document: dict[str, Any]) -> None:
    """Which cells make which section: what the report is built from, beside the cells' own runs."""
    write_grid(open_tracker(store.home()), experiment, document)
