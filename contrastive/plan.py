"""A grid with what is to be done for each cell, and what the report has to know about it."""

from dataclasses import dataclass, replace
from typing import Any

from contrastive import store
from contrastive.config import Cell, Experiment
from contrastive.grid import Grid, cell_name, expand
from contrastive.identity import evaluation_key
from contrastive.status import Status, statuses, up_to_date


@dataclass(frozen=True)
class Plan:
    grid: Grid
    statuses: dict[Cell, Status]
    kept: tuple[str, ...] = ()  # ids of runs of older code that stand in for today's

    @property
    def experiment(self) -> Experiment:
        return self.grid.experiment

    @property
    def to_do(self) -> list[Status]:
        return [status for status in self.statuses.values() if status.action != "reuse"]

    def name(self, cell: Cell) -> str:
        return cell_name(cell, self.experiment)

    def sections_of(self, cell: Cell) -> list[str]:
        return [s.section.title for s in self.grid.sections if any(cell in row.cells for row in s.rows)]


def make(experiment: Experiment, *, keep_stale: bool = False) -> Plan:
    grid = expand(experiment)
    found = {status.cell: status for status in statuses(grid.cells, experiment.evaluation)}
    if not keep_stale:
        return Plan(grid, found)
    key = evaluation_key(experiment.evaluation)
    kept = {cell: _keep(status, key) for cell, status in found.items() if status.older}
    return Plan(grid, found | kept, tuple(status.id for status in kept.values()))


def _keep(status: Status, key: str) -> Status:
    """The older run in the place of the one that today's code would make."""
    assert status.older is not None
    measured = up_to_date(store.run_folder(status.older), key)
    return replace(
        status, id=status.older, action="reuse" if measured else "evaluate", why=f"kept although {status.why}"
    )


def document(plan: Plan, references: list[dict[str, Any]]) -> dict[str, Any]:
    """The grid as the report reads it: sections, their rows, and the ids of the cells a row."""
    failures = {s.id: failure for s in plan.statuses.values() if (failure := store.failure(store.run_folder(s.id)))}
    return {
        "experiment": plan.experiment.model_dump(mode="json"),
        "sections": [
            {
                "title": part.section.title,
                "note": part.section.note,
                "show": part.section.show.model_dump(mode="json"),
                "rows": [
                    {
                        "label": row.label,
                        "axes": row.axes,
                        "baseline": row.baseline,
                        "cells": [plan.statuses[cell].id for cell in row.cells],
                        "seeds": [cell.seed for cell in row.cells],
                    }
                    for row in part.rows
                ],
            }
            for part in plan.grid.sections
        ],
        "references": references,
        "failed": {name: f"{failure['kind']}: {failure['error']}" for name, failure in failures.items()},
        "stale_kept": list(plan.kept),
    }
