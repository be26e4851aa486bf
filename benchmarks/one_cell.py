"""A cell of an experiment file, trained and evaluated in this process: what the other systems are given to run.

python -m benchmarks.one_cell EXPERIMENT NUMBER    # from 0; `prepare` makes the tokens that all cells share
"""

import os
import sys
from functools import lru_cache
from pathlib import Path

from contrastive.config.cell import Cell
from contrastive.config.experiment import Experiment
from contrastive.data.splits import SPLITS
from contrastive.grid import frozen_readers
from contrastive.grid import load as experiments
from contrastive.grid.identity import cell_id, identities, identity
from contrastive.runs import store
from contrastive.training.job import TrainRequest


@lru_cache(maxsize=1)  # a process that is used again reads the file once
def read(file: str) -> tuple[Experiment, tuple[Cell, ...]]:
    resolved = experiments.load_experiment(file)
    return resolved.experiment, resolved.cells


def prepare(file: str) -> None:
    from contrastive.evaluation.prepare import prepare_cell_tokens, prepare_evaluation

    experiment, cells = read(file)
    prepare_evaluation(cells[0], experiment.evaluation, prepare_cell_tokens(cells[0]))


def run(file: str, number: int) -> float:
    """All of it, into a run folder below ABLATE_HOME; gives the first score, for those that want one."""
    from contrastive.evaluation.evaluate_cell import evaluate_cell
    from contrastive.training.train_cell import train_cell

    experiment, cells = read(file)
    asked = asked_for(experiment, cells[number], str(number))
    folder = store.run_folder(cell_id(identity(asked.cell)))
    train_cell(folder, asked)
    evaluate_cell(folder, experiment.evaluation)
    return float(store.read_json(folder / "scores.json")["scores"][0]["value"])


def share(file: str, split: str) -> None:
    """What frozen blocks give for a split, where the file says that it is kept; before the cells begin."""
    from contrastive.data import tokens
    from contrastive.evaluation.prepare import prepare_cell_tokens
    from contrastive.models import frozen_store

    experiment, cells = read(file)
    prepared = tokens.open_tokens(prepare_cell_tokens(cells[0]))
    for reader, speed, name in frozen_readers.stores_read(cells[0], experiment.speed, SPLITS):
        if name == split:
            frozen_store.make_store(prepared, name, reader, speed)


def asked_for(experiment: Experiment, cell: Cell, name: str) -> TrainRequest:
    return TrainRequest(cell, name, experiment.resources.checkpoint_every, experiment.evaluation, experiment.speed)


def folders(file: str) -> list[Path]:
    """The run folder of each cell, in the order of their numbers."""
    _, cells = read(file)
    documents = identities(cells)
    return [store.run_folder(cell_id(documents[cell])) for cell in cells]


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    prepare(sys.argv[1]) if sys.argv[2] == "prepare" else run(sys.argv[1], int(sys.argv[2]))
