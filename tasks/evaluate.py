"""Prefect task: measure the embeddings of one trained cell."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from contrastive.evaluation import Evaluation
from tasks import work
from tasks.engines import Engine
from tasks.failures import check, infrastructure


@task(
    name="evaluate",
    task_run_name="evaluate · {name}",
    retries=2,
    retry_condition_fn=infrastructure,
    cache_policy=NO_CACHE,
    persist_result=False,
)
def evaluate(name: str, cell_id: str, engine: Engine, evaluation: Evaluation) -> None:
    check(engine.run("evaluate", work.evaluate, cell_id, evaluation))
