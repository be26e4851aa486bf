"""The flow `ablation-grid`: one experiment file → cells → training → evaluation → MLflow → report."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

from prefect import flow, task
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.futures import wait
from prefect.logging import get_run_logger
from prefect.task_runners import ThreadPoolTaskRunner

from contrastive import estimate, experiment, store
from contrastive.config import Cell, Experiment
from contrastive.grid import Grid, cell_name, expand
from contrastive.status import Status, statuses
from flows.progress import Progress
from tasks import engines, record
from tasks.engines import Engine, EngineName, WorkerLost
from tasks.evaluate import evaluate
from tasks.failures import CellFailed
from tasks.prepare import prepare, reference
from tasks.render import render
from tasks.tracking import CurveWriter
from tasks.train import train

SUPERVISORS = (os.cpu_count() or 1) + 2  # cells in flight: those at work, and the next ones waiting for a slot


class GridFailed(RuntimeError):
    """Some cells failed; the others are done and the report says which failed and why."""


@dataclass(frozen=True)
class Outcome:
    name: str
    id: str
    result: str  # reused, done, or failed
    reason: str = ""


@flow(
    name="ablation-grid",
    flow_run_name="{experiment}",
    task_runner=ThreadPoolTaskRunner(max_workers=SUPERVISORS),
    persist_result=False,
)
def ablation_grid(experiment: str, engine: EngineName = "local", keep_stale: bool = False) -> str:
    """Train, evaluate, record and report every cell of an experiment file; finished cells are reused.

    Args:
        experiment: path of the experiment file, for example configs/quickstart.yaml
        engine: where cells run: warm worker processes on this machine's devices, or inline (one by one, to debug)
        keep_stale: keep results that only an edit of the code made stale; the report says so
    """
    grid = expand(load(experiment))
    plan = [keep(status) if keep_stale else status for status in statuses(grid.cells, grid.experiment.evaluation)]
    todo = [status for status in plan if status.action != "reuse"]
    get_run_logger().info("%d cells: %d to do, %d reused", len(plan), len(todo), len(plan) - len(todo))
    with Progress(plan) as progress, run_engine(engine, grid.experiment, idle=not todo) as devices:
        references = prepare_shared(grid, plan, devices)
        futures = [
            cell.with_options(task_run_name=cell_name(status.cell, grid.experiment).replace("{", "(").replace("}", ")")).submit(
                status, grid, devices, progress
            )
            for status in longest_first(todo)
        ]
        wait(futures)
        outcomes = [future.result() for future in futures]
    tracking = record.grid(grid, plan, references, keep_stale)
    report = render(grid.experiment.name, tracking)
    publish(grid.experiment.name, plan, outcomes, report)
    failed = [outcome for outcome in outcomes if outcome.result == "failed"]
    if failed:
        raise GridFailed(summary(failed, len(plan), report))
    return str(report)
