"""Prefect task: measure the embeddings of one trained cell."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from contrastive.config.evaluation import Evaluation
from contrastive.evaluation.needs import lacking
from contrastive.runs import store
from tasks import worker_calls
from tasks.engines import Engine
from tasks.failures import infrastructure, raise_failure


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
