"""Prefect task: train one cell on a slot of the engine, its curves going to MLflow while it runs."""

from functools import partial

from prefect import task
from prefect.cache_policies import NO_CACHE

from contrastive import claim, store
from contrastive.evaluation import Evaluation
from contrastive.status import Status
from tasks import work
from tasks.curves import CurveWriter
from tasks.engines import Engine, Watch
from tasks.failures import check, infrastructure


@task(
    name="train",
    task_run_name="train · {name}",
    retries=2,
    retry_condition_fn=infrastructure,
    cache_policy=NO_CACHE,
    persist_result=False,
)
def train(
    name: str,
    status: Status,
    engine: Engine,
    curves: CurveWriter,
    checkpoint_every: int,
    hung_after: int,
    evaluation: Evaluation,
) -> None:
    asked = (status.cell, status.id, name, checkpoint_every, evaluation)
    assist = partial(work.assist, status.id, claim.latest(store.run_folder(status.id)))
    processes = status.cell.training.processes
    report = engine.run(
        "train", work.train, *asked, processes=processes, assist=assist, watch=Watch(curves.send_new, hung_after)
    )
    check(report)
