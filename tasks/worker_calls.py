"""Functions that an engine's workers run. They import torch when called, so that the flow's process never does."""

from pathlib import Path
from typing import Any

from contrastive.config.cell import Cell
from contrastive.config.evaluation import Evaluation
from contrastive.config.experiment import Speed
from contrastive.runs import store
from contrastive.training.job import TrainRequest
from contrastive.training.launch import Machines


def prepare(cell: Cell, test_texts: int | None = None) -> Path:
    from contrastive.data.tokens import prepare_larger_test
    from contrastive.evaluation.prepare import prepare_cell_tokens

    prepared = prepare_cell_tokens(cell)
    if test_texts is not None:
        prepare_larger_test(cell.data, test_texts, prepared, store.home())
    return prepared


def reference(tokens: Path, test: Path | None = None) -> None:
    from contrastive.evaluation.reference import tfidf

    tfidf(tokens, store.home(), test)


def train(
    request: TrainRequest, cell_id: str, devices: str = "", machines: Machines | None = None
) -> dict[str, Any] | None:
    from contrastive.training.failures import run_stage
    from contrastive.training.train_cell import train_cell

    folder = store.run_folder(cell_id)
    return run_stage(train_cell, folder, request, devices, machines)


def prefix(cell: Cell, speed: Speed, tokens: Path, split: str) -> None:
    """Store the outputs of frozen blocks for a split, for all cells that can read them."""
    from contrastive.data import tokens as token_store
    from contrastive.models import frozen_store

    frozen_store.make_store(token_store.open_tokens(tokens), split, cell, speed)


def guide(cell: Cell, tokens: Path) -> None:
    """Store the vectors of the training texts by a guide, for all cells that read them."""
    from contrastive.data import tokens as token_store
    from contrastive.models import guide

    guide.make_guide(token_store.open_tokens(tokens), cell)


def assist(cell_id: str, earlier: str, index: int) -> str:
    """Train this machine's share of a cell on several machines, in the attempt after `earlier`; return its failure."""
    from contrastive.training.launch import join_remote_cell

    return join_remote_cell(store.run_folder(cell_id), earlier, index)


def evaluate(cell_id: str, evaluation: Evaluation) -> dict[str, Any] | None:
    from contrastive.evaluation.evaluate_cell import evaluate_cell
    from contrastive.training.failures import run_stage

    return run_stage(evaluate_cell, store.run_folder(cell_id), evaluation)
