"""The flow `ablation-grid`: one experiment file → cells → training → evaluation → MLflow → report."""

import os
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.futures import as_completed
from prefect.logging import get_run_logger
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from contrastive import estimate, experiment, store
from contrastive import plan as plans
from contrastive.plan import Plan
from flows.progress import Progress
from tasks import engines
from tasks.cell import Job, Outcome, cell
from tasks.engines import Engine, EngineName
from tasks.prepare import references
from tasks.render import render
from tasks.tracking import sync

SUPERVISORS = (os.cpu_count() or 1) + 2  # cells in flight: those at work, and the next ones waiting for a slot


supervisors: TaskRunner[Any] = ThreadPoolTaskRunner(max_workers=SUPERVISORS)


class GridFailed(RuntimeError):
    """Some cells failed; the others are done, and the report says which failed and why."""


@flow(
    name="ablation-grid",
    flow_run_name="{experiment_file}",
    task_runner=supervisors,
    persist_result=False,
)
def ablation_grid(experiment_file: str, engine: EngineName = "local", keep_stale: bool = False) -> str:
    """Train, evaluate, record and report every cell of an experiment file; finished cells are reused.

    Args:
        experiment_file: path of the experiment file, for example configs/quickstart.yaml
        engine: where cells run: warm worker processes on this machine's devices, or inline (one by one, to debug)
        keep_stale: keep results that only an edit of the code made stale; the report says so
    """
    store.check_home()
    plan = plans.make(experiment.load(Path(experiment_file)), keep_stale=keep_stale)
    name, resources = plan.experiment.name, plan.experiment.resources
    with engines.start(engine, resources.slots, plan.experiment.training.threads) as devices:
        devices.room_for(max((status.cell.training.processes for status in plan.to_do), default=1))
        scores = references(plan, devices)
        outcomes = run_cells(plan, devices)
    sync(plan, plans.document(plan, scores))  # the cells that were reused, too
    report = render(name)
    publish(plan, outcomes, report)
    if failed := [outcome for outcome in outcomes if outcome.failed]:
        raise GridFailed(summary(failed, len(plan.statuses), report))
    return str(report)


def run_cells(plan: Plan, devices: Engine) -> list[Outcome]:
    """Every cell that is not finished, the longest first."""
    logger = get_run_logger()
    longest_first = sorted(plan.to_do, key=lambda status: estimate.work(status.cell), reverse=True)
    outcomes: list[Outcome] = []
    shown: Any = create_progress_artifact(
        0.0, key=f"progress-{plan.experiment.name}", description="Cells that have ended"
    )
    with Progress(len(plan.statuses), len(plan.statuses) - len(longest_first)) as progress:
        futures = [
            cell.submit(
                Job(
                    status,
                    plan.name(status.cell),
                    plan.experiment.name,
                    plan.sections[status.cell],
                    plan.experiment.evaluation,
                    plan.experiment.resources.checkpoint_every,
                    plan.experiment.resources.hung_after,
                ),
                devices,
            )
            for status in longest_first
        ]
        for future in as_completed(futures):
            outcome = future.result()
            progress.ended(outcome.name, str(outcome))
            logger.info("%s: %s", outcome.name, outcome)
            outcomes.append(outcome)
            update_progress_artifact(shown, 100.0 * len(outcomes) / len(futures))
    return outcomes


def publish(plan: Plan, outcomes: list[Outcome], report: Path) -> None:
    """The state of the grid and the report, as the Prefect UI shows them."""
    ended = {outcome.id: outcome for outcome in outcomes}
    rows = []
    for status in plan.statuses.values():
        outcome = ended.get(status.id)
        state, _, why = ("reused", "", status.why) if outcome is None else str(outcome).partition(": ")
        rows.append({"cell": plan.name(status.cell), "state": state, "why": why, "id": status.id})
    create_table_artifact(
        key=f"grid-{plan.experiment.name}", table=rows, description=f"Cells of {plan.experiment.name}"
    )
    create_markdown_artifact(key=f"report-{plan.experiment.name}", markdown=report.read_text(encoding="utf-8"))


def summary(failed: list[Outcome], total: int, report: Path) -> str:
    lines = [f"{len(failed)} of {total} cells failed, the others are done; report: {report}"]
    return "\n".join(lines + [f"  {outcome.name} ({outcome.id}): {outcome.failed}" for outcome in failed])
