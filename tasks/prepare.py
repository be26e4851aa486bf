"""Prefect tasks: what cells share, done once before they start."""

import logging
from pathlib import Path
from typing import Any

from prefect import task

from contrastive.config.cell import Cell
from contrastive.config.experiment import Speed
from contrastive.errors import UserError
from contrastive.evaluation import reference as tfidf
from contrastive.evaluation.grid_references import data_folders, known_references
from contrastive.grid.plan import Plan, tokens_folder
from contrastive.runs import store
from tasks import worker_calls
from tasks.cell import AGAIN
from tasks.engines import Engine, WorkerLost

logger = logging.getLogger(__name__)


@task(name="prepare", task_run_name="prepare · {cell.data.source}", persist_result=False, **AGAIN)
def prepare(cell: Cell, test_texts: int | None, engine: Engine) -> Path:
    """Tokens of one (data, tokenizer, length), and of more test texts, where they are measured."""
    return Path(engine.run("evaluate", worker_calls.prepare, cell, test_texts))


@task(name="reference", task_run_name="reference · TF-IDF", persist_result=False)
def reference(folder: Path, test: Path, engine: Engine) -> None:
    """Scores of TF-IDF + logistic regression on the same split: what an encoder has to beat."""
    engine.run("evaluate", worker_calls.reference, folder, test)


@task(name="prefix", task_run_name="frozen blocks · {split} · {cell.data.source}", persist_result=False)
def prefix(cell: Cell, speed: Speed, prepared: Path, split: str, engine: Engine) -> None:
    """What frozen blocks give for a split; a cell that finds it missing makes it itself."""
    try:
        engine.run("train", worker_calls.prefix, cell, speed, prepared, split)
    except WorkerLost as error:
        logger.warning("the cells compute their frozen blocks themselves: %s", error)


def references(plan: Plan, engine: Engine) -> list[dict[str, Any]]:
    """Prepare the tokens that the grid needs, and what each of its data sets is measured against.

    Where no cell has usable data, that is an error; otherwise the cells whose data is bad fail one by one.
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
        if there and not store.finished(tfidf.reference_file(folder, store.home(), test)):
            try:
                reference(folder, test, engine)
            except WorkerLost as error:
                logger.warning("no TF-IDF reference this time: %s", error)
    return known_references(plan)
