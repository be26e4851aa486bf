"""Prefect task: train one cell on a slot of the engine, its curves going to MLflow while it runs."""

from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun

from contrastive.status import Status
from tasks import work
from tasks.engines import Engine, WorkerLost
from tasks.failures import check
from tasks.tracking import CurveWriter


def infrastructure(_task: Any, _run: TaskRun, state: State[Any]) -> bool:
    """Only what the cell itself did not cause is tried again."""
    return isinstance(state.data, WorkerLost)


@task(
    name="train",
    task_run_name="train · {name}",
    retries=2,
    retry_condition_fn=infrastructure,
    cache_policy=NO_CACHE,
    persist_result=False,
)
def train(name: str, status: Status, engine: Engine, curves: CurveWriter, checkpoint_every: int) -> None:
    report = engine.run("train", work.train, status.cell, status.id, name, checkpoint_every, meanwhile=curves.send_new)
    check(report)
