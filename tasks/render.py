"""Prefect task: the report of an experiment, built from MLflow alone."""

from pathlib import Path

from prefect import task
from prefect.cache_policies import NO_CACHE

from contrastive import store
from reports.build import build
from tasks.address import tracking_uri
from tasks.database import file_of, whole
from tasks.tracking import TrackingFailed, in_words


@task(name="render", task_run_name="render · {experiment}", cache_policy=NO_CACHE, persist_result=False)
def render(experiment: str) -> Path:
    return build_report(experiment)


def build_report(experiment: str) -> Path:
    """Writes reports/output/EXPERIMENT/README.md below the home and returns its path."""
    output = store.home() / "reports" / "output" / experiment
    database = file_of(store.home())
    if database is not None and database.exists() and not whole(database):  # MLflow would try for minutes
        raise TrackingFailed(
            f"MLflow's database {database} is damaged: `ablate sync EXPERIMENT` sets it aside, and makes a new one "
            "from the run folders"
        )
    with in_words():
        return build(experiment, tracking_uri(store.home()), output)
