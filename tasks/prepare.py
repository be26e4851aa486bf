"""Prefect tasks: what cells share, done once before they start."""

from pathlib import Path
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from contrastive import reference as tfidf
from contrastive import store
from contrastive.config import Cell
from contrastive.data import tokens
from contrastive.plan import Plan
from tasks import work
from tasks.engines import Engine


@task(name="prepare", task_run_name="prepare · {cell.data.source}", cache_policy=NO_CACHE, persist_result=False)
def prepare(cell: Cell, engine: Engine) -> Path:
    """Tokens of one (data, tokenizer, length)."""
    return Path(engine.run("evaluate", work.prepare, cell))


@task(name="reference", task_run_name="reference · TF-IDF", cache_policy=NO_CACHE, persist_result=False)
def reference(folder: Path, engine: Engine) -> list[dict[str, Any]]:
    """Scores of TF-IDF + logistic regression on the same split: what an encoder has to beat."""
    found: list[dict[str, Any]] = engine.run("evaluate", work.reference, folder)
    return found


def references(plan: Plan, engine: Engine) -> list[dict[str, Any]]:
    """Prepare the tokens that the grid still needs; the references on the experiment's own data."""
    for digest, cell in token_folders(plan).items():
        if not store.finished(folder(digest)):
            prepare(cell, engine)
    return known_references(plan) or reference(own_folder(plan), engine)


def known_references(plan: Plan) -> list[dict[str, Any]]:
    """The references as far as they have been computed, without computing any."""
    path = tfidf.cached(own_folder(plan), store.home())
    found: list[dict[str, Any]] = store.read_json(path) if path.exists() else []
    return found


def token_folders(plan: Plan) -> dict[str, Cell]:
    return {tokens.digest(cell.data, cell.encoder): cell for cell in plan.statuses}


def own_folder(plan: Plan) -> Path:
    return folder(tokens.digest(plan.experiment.data, plan.experiment.encoder))


def folder(digest: str) -> Path:
    return store.home() / "cache" / "tokens" / digest
