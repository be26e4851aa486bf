"""`ablate plan`: what a run of an experiment would do, without torch."""

from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console

from contrastive import estimate, experiment
from contrastive import plan as plans
from contrastive.config import Experiment
from contrastive.grid import expand
from contrastive.plan import Plan


def load(path: Path) -> Experiment:
    return experiment.load(path)


def check(path: Path) -> None:
    """Find every mistake of the file before anything heavy is imported."""
    expand(load(path))


def make(path: Path) -> Plan:
    return plans.make(load(path))


def seconds(plan: Plan) -> float | None:
    """Expected time of what is to train, one cell after another."""
    return estimate.seconds(status.cell for status in plan.to_do if status.action != "evaluate")


def as_dict(plan: Plan) -> dict[str, Any]:
    return {
        "experiment": plan.experiment.name,
        "counts": dict(Counter(status.action for status in plan.statuses.values())),
        "estimated_seconds": seconds(plan),
        "cells": [
            {
                "id": status.id,
                "name": plan.name(status.cell),
                "action": status.action,
                "why": status.why,
            }
            for status in plan.statuses.values()
        ],
    }


def show(plan: Plan) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for status in plan.statuses.values():
        why = f" ({status.why})" if status.why else ""
        console.print(f"{status.action:8} {status.id}  {plan.name(status.cell)}{why}", markup=False)
    counts = Counter(status.action for status in plan.statuses.values())
    listed = ", ".join(
        f"{count} to {action}" if action != "stale" else f"{count} stale" for action, count in counts.items()
    )
    console.print(f"{len(plan.statuses)} cells: {listed}; {_time(plan)}", markup=False)


def _time(plan: Plan) -> str:
    expected = seconds(plan)
    if expected is None:
        return "time unknown until a cell of this encoder has finished here"
    return f"about {expected / 60:.1f} minutes of training, divided by the cells that run at a time"
