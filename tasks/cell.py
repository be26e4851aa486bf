"""Prefect tasks: prepare what cells share; then train, evaluate and record each cell."""

import logging
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from prefect import task
from prefect.client.schemas.objects import State, TaskRun

from contrastive.config.cell import Cell
from contrastive.config.evaluation import Evaluation
from contrastive.config.experiment import Speed
from contrastive.errors import UserError
from contrastive.evaluation import reference as tfidf
from contrastive.evaluation.prepare import lacks_embeddings
from contrastive.evaluation.reference import data_folders
from contrastive.grid.identity import evaluation_key
from contrastive.grid.plan import Plan, tokens_folder
from contrastive.grid.status import Status
from contrastive.runs import claim, store
from contrastive.training.job import TrainRequest
from tasks import worker_calls
from tasks.engines import Engine, Stopped, Watch, WorkerLost
from tasks.record import CurveWriter, record_cell
from tasks.sync import end_run_of
from tasks.tracking import open_tracker, or_warning

logger = logging.getLogger(__name__)


class CellFailed(RuntimeError):
    """A cell ended without a result; the message is the reason."""

    def __init__(self, kind: str, reason: str, may_try_again: bool = True):
        super().__init__(reason)
        self.kind, self.may_try_again = kind, may_try_again


def may_try_again(_task: Any, run: TaskRun, state: State[Any]) -> bool:
    """Return whether to retry: only after failures that the work did not cause."""
    error = state.data
    if isinstance(error, CellFailed) and not error.may_try_again:
        return False
    kind = error.kind if isinstance(error, WorkerLost | CellFailed) else ""
    return run.run_count < claim.TRIES.get(kind, 1)


AGAIN: dict[str, Any] = {"retries": max(claim.TRIES.values()) - 1, "retry_condition_fn": may_try_again}


def raise_failure(report: dict[str, Any] | None) -> None:
    if report is not None and report["kind"] in claim.NO_FAILURE:
        raise Stopped
    if report is not None:
        raise CellFailed(report["kind"], report["error"], may_try_again=not report.get("by_workers"))


@task(name="prepare", task_run_name="prepare · {cell.data.source}", persist_result=False, **AGAIN)
def prepare(cell: Cell, test_texts: int | None, engine: Engine) -> Path:
    """Prepare the tokens of one (data, tokenizer, length), and the larger test set if one is evaluated."""
    return Path(engine.run("evaluate", worker_calls.prepare, cell, test_texts))


@task(name="reference", task_run_name="reference · TF-IDF", persist_result=False)
def reference(folder: Path, test: Path, engine: Engine) -> None:
    """Score TF-IDF + logistic regression on the same split: the least that an encoder has to beat."""
    engine.run("evaluate", worker_calls.reference, folder, test)


@task(name="prefix", task_run_name="frozen blocks · {split} · {cell.data.source}", persist_result=False)
def prefix(cell: Cell, speed: Speed, prepared: Path, split: str, engine: Engine) -> None:
    """Store the outputs of frozen blocks for a split; a cell that finds no stored outputs computes its own."""
    try:
        engine.run("train", worker_calls.prefix, cell, speed, prepared, split)
    except WorkerLost as error:
        logger.warning("outputs of frozen blocks could not be stored, so each cell computes them: %s", error)


@task(name="guide", task_run_name="guide · {cell.objective.guide}", persist_result=False)
def guide(cell: Cell, prepared: Path, engine: Engine) -> None:
    """Store the vectors of the training texts by a guide; where it fails, the cells that need it say why."""
    try:
        engine.run("train", worker_calls.guide, cell, prepared)
    except (UserError, WorkerLost) as error:
        logger.warning("the vectors by the guide %s could not be stored: %s", cell.objective.guide, error)


def references(plan: Plan, engine: Engine) -> None:
    """Prepare the tokens that the grid needs, and the reference scores of each data set.

    Raise UserError if no cell has usable data; if only some have, the others fail one by one.
    """
    cells = {plan.token_key(cell): cell for cell in plan.statuses}
    errors: list[UserError | WorkerLost] = []
    for key, cell in cells.items():
        if not (store.finished(tokens_folder(key)) and store.finished(tokens_folder(plan.test_key(cell)))):
            try:
                if prepare(cell, plan.experiment.evaluation.test, engine) != tokens_folder(key):
                    raise UserError("the code or the data has changed since this grid was planned; run it again")
            except (UserError, WorkerLost) as error:
                errors.append(error)
    if len(errors) == len(cells):
        raise UserError(str(errors[0])) from errors[0]
    for folder, test in (pair for pairs in data_folders(plan).values() for pair in pairs):
        there = store.finished(folder) and store.finished(test)
        if there and not store.finished(tfidf.reference_folder(folder, store.home(), test)):
            try:
                reference(folder, test, engine)
            except WorkerLost as error:
                logger.warning("the TF-IDF reference could not be computed, so the report has none: %s", error)


@dataclass(eq=False)
class Job:
    """A cell to train or evaluate, with what its stages need."""

    status: Status
    experiment: str
    sections: list[str]
    request: TrainRequest
    hung_after: int
    steps: int  # of its training; 0 for a cell that is only evaluated

    def __post_init__(self) -> None:
        self.curves = CurveWriter(self.experiment, store.run_folder(self.status.id), self.name)

    @property
    def name(self) -> str:
        return self.request.name

    def step(self) -> int:
        """Return how many of its steps are done."""
        return min(self.steps, self.curves.lines)


@task(name="train", task_run_name="train · {job.name}", persist_result=False, **AGAIN)
def train(job: Job, engine: Engine) -> None:
    assist = partial(worker_calls.assist, job.status.id, claim.latest_attempt(store.run_folder(job.status.id)))
    of = job.request.cell
    watch = None if of.soup else Watch(job.curves.send_new, job.hung_after)  # a soup may wait for its members
    work = worker_calls.train, job.request, job.status.id
    try:
        raise_failure(engine.run("train", *work, processes=of.training.processes, assist=assist, watch=watch))
    except WorkerLost as error:
        claim.report_loss(store.run_folder(job.status.id), error.kind, str(error))
        raise


@dataclass(frozen=True)
class Outcome:
    name: str
    id: str
    failed: str = ""  # the reason; empty for a cell with a result
    diverged: str = ""  # the reason; a retry would diverge again, so this is a result

    def __str__(self) -> str:
        if self.diverged:
            return f"diverged: {self.diverged}"
        return f"failed: {self.failed}" if self.failed else "done"


@task(name="cell", task_run_name="{job.name}", persist_result=False)
def cell(job: Job, engine: Engine) -> Outcome:
    """Train, evaluate and record a cell. After a failure other cells go on; MLflow and the report show the reason."""
    status, failed, diverged = job.status, "", ""
    try:
        if status.action != "evaluate":
            train(job, engine)
        evaluate(job.name, status.id, engine, job.request.evaluation)
    except CellFailed as error:
        failed, diverged = ("", str(error)) if error.kind == "diverged" else (str(error), "")
    except Stopped:
        end_run_of(status.id, job.experiment)
        raise
    except WorkerLost as error:
        failed = str(error)
        claim.report_loss(store.run_folder(status.id), error.kind, failed)
    with or_warning(f"{job.name} is not recorded in MLflow; `ablate sync` will record it"):
        record(job.name, status.id, job.experiment, job.sections, evaluation_key(job.request.evaluation))
    return Outcome(job.name, status.id, failed, diverged)


@task(name="record", task_run_name="record · {name}", persist_result=False)
def record(name: str, cell_id: str, experiment: str, sections: list[str], key: str) -> None:
    """Record the MLflow run of a cell. A failure never stops a grid; `ablate sync` repairs it."""
    record_cell(open_tracker(store.home()), experiment, store.run_folder(cell_id), sections, key)


@task(name="evaluate", task_run_name="evaluate · {name}", persist_result=False, **AGAIN)
def evaluate(name: str, cell_id: str, engine: Engine, evaluation: Evaluation) -> None:
    """Evaluate a cell. If embeddings are missing the model is needed, and with it a training device."""
    needs_model = lacks_embeddings(store.run_folder(cell_id), evaluation)
    raise_failure(engine.run("train" if needs_model else "evaluate", worker_calls.evaluate, cell_id, evaluation))
