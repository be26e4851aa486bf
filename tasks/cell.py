"""Prefect task: one cell through its stages, as the supervisor in the flow's process sees it."""

import logging
from dataclasses import dataclass

from prefect import task
from prefect.cache_policies import NO_CACHE

from contrastive.cells.identity import evaluation_key
from contrastive.cells.status import Status
from contrastive.config.evaluation import Evaluation
from contrastive.evaluation.needs import lacking
from contrastive.runs import store
from contrastive.stages.request import Asked
from tasks import worker_calls
from tasks.curves import CurveWriter
from tasks.engines import Engine, Stopped, WorkerLost
from tasks.failures import CellFailed, infrastructure, raise_failure
from tasks.record import record_cell
from tasks.settle import end_run_of
from tasks.tracking import open_tracker
from tasks.train import Group, train

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """A cell to do, with what its stages need beside it."""

    status: Status
    experiment: str
    sections: list[str]
    asked: Asked
    group: Group  # of the cells that train with this one
    hung_after: int

    @property
    def name(self) -> str:
        return self.asked.name


@dataclass(frozen=True)
class Outcome:
    name: str
    id: str
    failed: str = ""  # the reason, empty for a cell that has a result
    diverged: str = ""  # a result too, and the same when it is tried again

    def __str__(self) -> str:
        if self.diverged:
            return f"diverged: {self.diverged}"
        return f"failed: {self.failed}" if self.failed else "done"


@task(name="cell", task_run_name="{job.name}", cache_policy=NO_CACHE, persist_result=False)
def cell(job: Job, engine: Engine) -> Outcome:
    """Train, evaluate, record. A failure is an outcome: the other cells go on, and MLflow and the report say why."""
    status, failed, diverged = job.status, "", ""
    try:
        if status.action != "evaluate":
            curves = CurveWriter(store.home(), job.experiment, store.run_folder(status.id), job.name)
            train(job.name, status.id, engine, job.group, curves, job.hung_after)
        evaluate(job.name, status.id, engine, job.asked.evaluation)
    except CellFailed as error:
        failed, diverged = ("", str(error)) if error.kind == "diverged" else (str(error), "")
    except Stopped:
        end_run_of(status.id, job.experiment)
        raise
    except WorkerLost as error:
        failed = str(error)
        store.write_json(store.run_folder(status.id) / "FAILED.json", {"kind": "infrastructure", "error": failed})
    try:
        record(job.name, status.id, job.experiment, job.sections, evaluation_key(job.asked.evaluation))
    except Exception as error:  # whatever a tracking server may raise: the result is safe in its folder
        logger.warning("%s is not in MLflow, `ablate sync` will bring it there: %s", job.name, error)
    return Outcome(job.name, status.id, failed, diverged)


@task(name="record", task_run_name="record · {name}", cache_policy=NO_CACHE, persist_result=False)
def record(name: str, cell_id: str, experiment: str, sections: list[str], key: str) -> None:
    """The run of one cell; tracking that fails is repaired by `ablate sync`, and never stops a grid."""
    record_cell(open_tracker(store.home()), experiment, store.run_folder(cell_id), sections, key)


@task(
    name="evaluate",
    task_run_name="evaluate · {name}",
    retries=2,
    retry_condition_fn=infrastructure,
    cache_policy=NO_CACHE,
    persist_result=False,
)
def evaluate(name: str, cell_id: str, engine: Engine, evaluation: Evaluation) -> None:
    """On a slot of its own; embeddings that are not there yet need the model, and a device of those that train."""
    needs_model = lacking(store.run_folder(cell_id), evaluation)
    raise_failure(engine.run("train" if needs_model else "evaluate", worker_calls.evaluate, cell_id, evaluation))
