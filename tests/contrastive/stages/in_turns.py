"""Cells that train in turns in one process, and the same ones alone."""

from contrastive.config.cell import Cell
from contrastive.config.speed import Speed
from contrastive.runs import store
from contrastive.stages import turns
from contrastive.stages.request import Asked
from contrastive.stages.train_cell import train_cell
from tests.contrastive.training.trained import folder_of, make, numbers

TUNE = {"tune": {"last_blocks": 1}}
SMALL = {"train": 24, "validation": 0, "test": 16}
SPEED = Speed()


def asked(cell: Cell, together: int = 1, every: int = 1000) -> Asked:
    return Asked(cell, "a cell", every, speed=SPEED, together=together)


def alone(cells: list[Cell]) -> list[dict[str, object]]:
    """What each gives by itself, in a home of its own, where the cells are then forgotten."""
    for cell in cells:
        train_cell(folder_of(cell), asked(cell))
    found = [numbers(folder_of(cell)) for cell in cells]
    for cell in cells:
        store.remove(folder_of(cell))
    return found


def in_turns(cells: list[Cell], every: int = 1000) -> list[dict | None]:
    """The report of each."""
    reports = turns.train_in_turns({folder_of(cell): asked(cell, len(cells), every) for cell in cells})
    assert reports.keys() == {folder_of(cell).name for cell in cells}
    return [reports[folder_of(cell).name] for cell in cells]


def group_of(source: str) -> list[Cell]:
    """Three of one view, two passes a step."""
    objectives = [{"loss": "rdrop"}, {"loss": "ce+ntxent", "alpha": 0.3}, {"loss": "simcse"}]
    return [make(source, encoder=TUNE, data=SMALL, view="two_stage", **objective) for objective in objectives]
