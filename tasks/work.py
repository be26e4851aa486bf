"""What an engine's worker is asked to do. Imports torch when it is called, so that the flow's process never does."""

from pathlib import Path
from typing import Any

from contrastive import store
from contrastive.config import Cell, Evaluation


def prepare(cell: Cell) -> Path:
    from contrastive import stages

    return stages.prepare(cell)


def reference(tokens: Path) -> None:
    from contrastive.reference import tfidf

    tfidf(tokens, store.home())


def train(cell: Cell, cell_id: str, name: str, checkpoint_every: int, devices: str = "") -> dict[str, Any] | None:
    from contrastive import stages

    folder = store.run_folder(cell_id)
    return stages.attempt(stages.train_cell, folder, folder, cell, name, checkpoint_every, devices)


def evaluate(cell_id: str, evaluation: Evaluation) -> dict[str, Any] | None:
    from contrastive import stages

    return stages.attempt(stages.evaluate_cell, store.run_folder(cell_id), store.run_folder(cell_id), evaluation)
