"""Prefect task: the report of an experiment, built from MLflow alone."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prefect import task
from prefect.cache_policies import NO_CACHE

from contrastive.errors import UserError
from contrastive.runs import store
from reports.build import differences, publish
from reports.load import load
from reports.looks import check_looks
from reports.mlflow_runs import NotFetched
from reports.paper import publish_paper
from tasks.database import file_of, is_sound
from tasks.secrets import masked
from tasks.tracking import TrackingFailed, in_words
from tasks.tracking_address import tracking_uri

logger = logging.getLogger(__name__)


class ReportFailed(UserError):
    """The results were read, and no report came of them."""


@task(name="render", task_run_name="render · {experiment}", cache_policy=NO_CACHE, persist_result=False)
def render(experiment: str) -> Path:
    return build_report(experiment)


def build_report(experiment: str, paper: bool = False) -> Path:
    """Writes reports/output/EXPERIMENT/README.md below the home and returns its path; `paper`: what `paper_folder`
    holds, too."""
    database = file_of(store.home())
    if database is not None and database.exists() and not is_sound(database):  # MLflow would try for minutes
        raise TrackingFailed(
            f"MLflow's database {database} is damaged: `ablate sync EXPERIMENT` sets it aside, and makes a new one "
            "from the run folders"
        )
    with in_words():
        results = load(experiment, tracking_uri(store.home()))
    with in_words(NotFetched), in_own_words(experiment):
        if paper:
            publish_paper(results, paper_folder(experiment))
        return publish(results, store.report_folder(experiment))


def paper_folder(experiment: str) -> Path:
    return store.home() / "reports" / "paper" / experiment


def audit_report(experiment: str) -> list[str]:
    """How the report of an experiment differs from one built of its results now; nothing where there is no report."""
    folder = store.report_folder(experiment)
    if not folder.exists():
        return []
    with in_words():
        results = load(experiment, tracking_uri(store.home()))
    with in_words(NotFetched), in_own_words(experiment):
        return [*check_looks(results), *(f"{folder}/{said}" for said in differences(folder, results))]


@contextmanager
def in_own_words(experiment: str) -> Iterator[None]:
    """Errors of building, told as such; files that MLflow did not give are not among them."""
    try:
        yield
    except (UserError, NotFetched):
        raise
    except Exception as error:
        if isinstance(error, OSError):
            raise ReportFailed(f"the report of {experiment} could not be built: {store.explain(error)}") from None
        logger.exception("The report of %s could not be built.", experiment)
        raise ReportFailed(
            f"the report of {experiment} could not be built: {type(error).__name__}: {masked(str(error))}. "
            "MLflow and the run folders hold all results: `ablate report` builds it once this is mended"
        ) from error
