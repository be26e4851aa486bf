"""`ablate plan`: what a run of an experiment would do, without torch."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from contrastive import estimate, experiment
from contrastive.config import Experiment
from contrastive.grid import Grid, cell_name, expand
from contrastive.status import Status, statuses


@dataclass(frozen=True)
class Plan:
    grid: Grid
    statuses: list[Status]
    seconds: float | None  # expected time of what is to train, one cell after another


def load(path: Path) -> Experiment:
    return experiment.load(path)


def check(path: Path) -> None:
    """Find every mistake of the file before anything heavy is imported."""
    expand(load(path))


def make(path: Path) -> Plan:
    grid = expand(load(path))
    found = statuses(grid.cells, grid.experiment.evaluation)
    return Plan(grid, found, estimate.seconds(status.cell for status in found if status.action in ("run", "stale")))


def as_dict(plan: Plan) -> dict[str, Any]:
    return {
        "experiment": plan.grid.experiment.name,
        "counts": dict(Counter(status.action for status in plan.statuses)),
        "estimated_seconds": plan.seconds,
        "cells": [
            {
                "id": status.id,
                "name": cell_name(status.cell, plan.grid.experiment),
                "action": status.action,
                "why": status.why,
            }
            for status in plan.statuses
        ],
    }


def show(plan: Plan) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for status in plan.statuses:
        why = f" ({status.why})" if status.why else ""
        console.print(f"{status.action:8} {status.id}  {cell_name(status.cell, plan.grid.experiment)}{why}", markup=False)
    counts = Counter(status.action for status in plan.statuses)
    listed = ", ".join(f"{count} to {action}" if action != "stale" else f"{count} stale" for action, count in counts.items())
    console.print(f"{len(plan.statuses)} cells: {listed}; {_time(plan)}", markup=False)


def _time(plan: Plan) -> str:
    if plan.seconds is None:
        return "time unknown until a cell of this encoder has finished here"
    return f"about {plan.seconds / 60:.1f} minutes of training, divided by the cells that run at a time"
