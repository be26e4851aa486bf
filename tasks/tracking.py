"""Connect to MLflow, explain its errors, and find the runs of a cell.

See record.py and sync.py for what is written there.
"""

import errno
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow.exceptions import MlflowException

from contrastive.errors import UserError
from contrastive.runs import store
from reports.load import all_runs
from tasks.address import TrackingFailed, file_of, is_database, masked, refuse_damaged, tracking_uri
from tasks.empty_databases import begin_with_copy

# MLflow logs each database error with its traceback and then raises it: once is enough
logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)

logger = logging.getLogger(__name__)

RECORDED = "ablate.recorded"

_open: dict[str, MlflowClient] = {}  # address → client


@contextmanager
def as_tracking_error(blamed: type[Exception] = Exception) -> Iterator[None]:
    """Raise errors of a type as TrackingFailed, with an explanation; UserError passes through."""
    try:
        yield
    except UserError:
        raise
    except blamed as error:  # a server, a database or an address may raise anything
        raise TrackingFailed(explain_mlflow(error)) from None


@contextmanager
def or_warning(text: str) -> Iterator[None]:
    """Log a failure of tracking as a warning and go on: the results are safe in the run folders."""
    try:
        with as_tracking_error():
            yield
    except UserError as error:
        logger.warning("%s: %s", text, error)


@contextmanager
def writing() -> Iterator[None]:
    """Hold the lock of this home's writers to MLflow, and raise errors as TrackingFailed."""
    with as_tracking_error(), store.locked(store.home() / "locks" / "mlflow"):
        yield


def explain_mlflow(error: Exception) -> str:
    """Explain an error of MLflow in one line."""
    if "database or disk is full" in str(error):  # SQLite's words
        error = OSError(errno.ENOSPC, "", str(store.home() / "mlflow.db"))
    if isinstance(error, OSError) and error.errno in store.FULL + store.FORBIDDEN + store.MISPLACED:
        return store.explain_os_error(error)
    address = masked(tracking_uri(store.home()))
    first = masked(str(error)).strip().partition("\n")[0] or type(error).__name__
    anew = "If this stays so, move mlflow.db* away: `ablate sync EXPERIMENT` makes a new one"
    return (
        f"MLflow at {address} could not be used: {first}. Results are safe in their run folders: repeat the command to "
        f"go on from them. {anew if file_of(store.home()) else ''}".rstrip()
    )


def open_tracker(home: Path) -> MlflowClient:
    if (uri := tracking_uri(home)) in _open:
        return _open[uri]
    home.mkdir(parents=True, exist_ok=True)
    # two processes that create a new database at once would collide
    with writing():
        refuse_damaged(home)
        if (database := file_of(home)) is not None:
            begin_with_copy("mlflow", database)
        return _open.setdefault(uri, MlflowClient(tracking_uri=uri))


def experiment_id(client: MlflowClient, name: str) -> str:
    """Return the id of the experiment of this name; create it if there is none."""
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        # a server stores artifacts itself; with a database they are stored in the home
        artifacts = (store.home() / "mlartifacts" / name).as_uri() if is_database(tracking_uri(store.home())) else None
        try:
            return str(client.create_experiment(name, artifact_location=artifacts))
        except MlflowException:  # another machine, which has its own locks, has just created it
            if (experiment := client.get_experiment_by_name(name)) is None:
                raise
    if experiment.lifecycle_stage == "deleted":
        raise UserError(f"the MLflow experiment {name} was deleted; restore it in MLflow's UI, or rename yours")
    return str(experiment.experiment_id)


def find_runs(client: MlflowClient, experiment: str, tag: str, value: str) -> list[Run]:
    """Return the runs with a tag, newest first."""
    assert re.fullmatch(r"[\w.-]+", value), f"`{value}` could end the string in the filter"
    return list(client.search_runs([experiment_id(client, experiment)], f"tags.`{tag}` = '{value}'"))


def end_runs(client: MlflowClient, runs: list[Run]) -> None:
    for run in runs:
        if run.info.status == "RUNNING":
            client.set_terminated(run.info.run_id, "KILLED")


def remove_runs(client: MlflowClient, runs: list[Run]) -> None:
    """End and delete runs. A deleted run cannot be changed any more and would say RUNNING for ever."""
    end_runs(client, runs)
    for run in runs:
        client.delete_run(run.info.run_id)


def runs_of_cells(client: MlflowClient, experiment: str) -> dict[str, list[Run]]:
    return by_cell(all_runs(client, experiment_id(client, experiment)))


def by_cell(runs: list[Run]) -> dict[str, list[Run]]:
    """Return the runs of each cell, newest first as given; there should be one."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        if "ablate.cell" in run.data.tags:
            found.setdefault(run.data.tags["ablate.cell"], []).append(run)
    return found
