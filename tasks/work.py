"""What an engine's worker is asked to do. Imports torch when it is called, so that the flow's process never does."""

from pathlib import Path
from typing import Any

from contrastive import store
from contrastive.config import Cell
from contrastive.evaluation import Evaluation
from contrastive.launch import Machines

USUAL = Evaluation()


def prepare(cell: Cell) -> Path:
    from contrastive import stages

    return stages.prepare(cell)


def reference(tokens: Path) -> None:
    from contrastive.reference import tfidf

    tfidf(tokens, store.home())


def train(
    cell: Cell,
    cell_id: str,
    name: str,
    checkpoint_every: int,
    evaluation: Evaluation = USUAL,
    devices: str = "",
    machines: Machines | None = None,
) -> dict[str, Any] | None:
    from contrastive import stages

    folder = store.run_folder(cell_id)
    asked = (folder, cell, name, checkpoint_every, evaluation, devices, machines)
    return stages.attempt(stages.train_cell, folder, *asked)


def assist(cell_id: str, earlier: str, index: int) -> str:
    """Train this machine's share of a cell larger than one, in the attempt after `earlier`; gives what was lost."""
    from contrastive.launch import assist

    return assist(store.run_folder(cell_id), earlier, index)


def evaluate(cell_id: str, evaluation: Evaluation) -> dict[str, Any] | None:
    from contrastive import stages

    return stages.attempt(stages.evaluate_cell, store.run_folder(cell_id), store.run_folder(cell_id), evaluation)
