"""Prefect task: measure the embeddings of one trained cell."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from contrastive import store
from contrastive.evaluation import Evaluation
from contrastive.wanted import lacking
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
    """On a slot of its own; embeddings that are not there yet need the model, and a device of those that train."""
    needs_model = lacking(store.run_folder(cell_id), evaluation)
    check(engine.run("train" if needs_model else "evaluate", work.evaluate, cell_id, evaluation))
