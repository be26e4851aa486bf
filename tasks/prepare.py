"""Prefect tasks: the work that cells share, done once before they start."""

from pathlib import Path
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from contrastive.config import Cell
from tasks import work
from tasks.engines import Engine


@task(name="prepare", task_run_name="prepare · {cell.data.source}", cache_policy=NO_CACHE, persist_result=False)
def prepare(cell: Cell, engine: Engine) -> Path:
    """Tokens of one (data, tokenizer, length)."""
    return Path(engine.run("evaluate", work.prepare, cell))


@task(name="reference", task_run_name="reference · TF-IDF", cache_policy=NO_CACHE, persist_result=False)
def reference(tokens: Path, engine: Engine) -> list[dict[str, Any]]:
    """Scores of TF-IDF + logistic regression on the same split: what an encoder has to beat."""
    found: list[dict[str, Any]] = engine.run("evaluate", work.reference, tokens)
    return found
