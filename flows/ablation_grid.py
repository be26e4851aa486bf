"""The flow `ablation-grid`: one experiment file → cells → training → evaluation → MLflow → report."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain, islice
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Annotated, Any, TypeAlias

from prefect import flow
from prefect.artifacts import (
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.futures import PrefectFuture
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner
from pydantic import Field

from contrastive.config.cell import Cell
from contrastive.config.experiment import Resources
from contrastive.grid import load
from contrastive.grid import plan as plans
from contrastive.grid.estimate import CostEstimator
from contrastive.grid.expand import Resolved
from contrastive.grid.groups import group_cells
from contrastive.grid.plan import Plan, tokens_folder
from contrastive.grid.status import Status
from contrastive.training.request import TrainRequest
from flows.forecast import (
    MOST_SEEDS,
    budget_seconds,
    cost_estimator,
    most_threads,
    note_overhead,
    preflight_report,
    slots_for,
    stores_to_make,
)
from flows.progress import Progress
from flows.report import Preliminary, ending, experiment_of_run, grid_ended, told
from flows.serve.servers import begin_flow
from flows.study import Study
from reports.markdown import plain
from tasks import engines
from tasks.cell import Group, Job, Outcome, cell, prefix, references
from tasks.engines import Engine, EngineName
from tasks.render import Rendered, ReportFailed, render
from tasks.settle import prepare_tracking
from tasks.sync import sync
from tasks.tracking import TrackingFailed

GRACE = 25.0  # seconds for cells at work to write a checkpoint; Prefect kills 30 s after it asked to end
Share = Annotated[float, Field(ge=0, le=1)]
Seeds = Annotated[int, Field(ge=2, le=MOST_SEEDS)]

logger = logging.getLogger(__name__)

Ended: TypeAlias = SimpleQueue[tuple[Group, PrefectFuture[Outcome]]]
supervisors: TaskRunner[Any] = ThreadPoolTaskRunner(
    max_workers=10_000
)  # no more than `Engine.max_in_flight` have a cell


class GridFailed(RuntimeError):
    """Some cells failed; the others are done, and the report says which failed and why."""


@flow(
    name="ablation-grid",
    flow_run_name=experiment_of_run,
    task_runner=supervisors,
    persist_result=False,
)
def ablation_grid(
    experiment_file: str,
    engine: EngineName = "local",
    keep_stale: bool = False,
    gpus_per_cell: Share | None = None,
    until_decided: bool = False,
    max_seeds: Seeds = 20,
    budget: str = "",
) -> str:
    """Train, evaluate, record and report every cell of an experiment file; finished cells are reused.

    Args:
        experiment_file: path of the experiment file, for example configs/quickstart.yaml
        engine: where cells run: this machine's devices (local), the Ray cluster that RAY_ADDRESS names (ray),
            or one by one in the flow's own process, to debug (inline)
        keep_stale: keep results that only an edit of the code made stale; the report says so
        gpus_per_cell: share of a GPU of a cell, in the place of what the file says; .5 packs two on one, 0 needs none
        until_decided: add seeds, beginning with two, to what is undecided, in the place of the seeds of the file
        max_seeds: the most seeds of a configuration, where they are added until all is decided
        budget: time after which no more seeds are added, for example 90m or 2h
    """
    begin_flow()
    resolved = load.load_experiment(Path(experiment_file))
    study = begin_study(resolved, max_seeds, budget, keep_stale) if until_decided else None
    plan = plans.make_plan(resolved, keep_stale=keep_stale) if study is None else study.whole
    tell_foreseen(plan, gpus_per_cell, engine)
    plans.declare_plan(plan, None if study is None else max_seeds)
    with engines.start(engine, resources_of(plan, gpus_per_cell), most_threads(plan)) as devices:
        devices.check_capacity(max((status.cell.training.processes for status in plan.to_do), default=1))
        prepare_tracking(plan.experiment.name)
        scores = references(plan, devices)
        began = time.monotonic()
        share_prefixes(plan, devices)
        outcomes = run_cells(plan, devices, Preliminary(scores), study)
        cells = time.monotonic() - began
    report = record_and_report(plan, scores, outcomes, study)
    note_overhead(cells)
    if failed := [outcome for outcome in outcomes if outcome.failed]:
        raise GridFailed(summary(failed, report.path, len((plan if study is None else study.plan()).statuses)))
    return ending(report)


def resources_of(plan: Plan, gpus_per_cell: float | None) -> Resources:
    resources = plan.experiment.resources
    return resources if gpus_per_cell is None else resources.model_copy(update={"gpus_per_cell": gpus_per_cell})


def begin_study(resolved: Resolved, max_seeds: int, budget: str, keep_stale: bool) -> Study:
    return Study(resolved, max_seeds, budget_seconds(budget) if budget else None, keep_stale=keep_stale)


def record_and_report(
    plan: Plan, scores: list[dict[str, Any]], outcomes: list[Outcome], study: Study | None
) -> Rendered:
    """Bring MLflow up to all cells, also those that were reused, and write the report; Prefect is told of both."""
    plan, stopping = (plan, None) if study is None else (study.plan(), study.stopping())
    show_states(plan, outcomes)
    name, total, failed = plan.experiment.name, len(plan.statuses), sum(bool(outcome.failed) for outcome in outcomes)
    try:
        sync(plan, plans.grid_document(plan, scores, stopping))
        report = render(name)
    except (TrackingFailed, ReportFailed):
        grid_ended(name, total, failed, None)
        raise
    told(name, report)
    grid_ended(name, total, failed, report.path)
    return report


def tell_foreseen(plan: Plan, gpus_per_cell: float | None, engine: EngineName) -> None:
    """Raise where nothing can work, before anything trains; else say what will be missing."""
    problems = preflight_report(plan, gpus_per_cell, engine)
    problems.refuse()
    for warning in problems.warnings:
        logger.warning(warning)


def share_prefixes(plan: Plan, devices: Engine) -> None:
    """What frozen blocks always give alike, computed before the cells that read it begin, a split on each device."""
    made = [
        prefix.submit(reader, speed, tokens_folder(plan.token_key(reader)), split, devices)
        for reader, speed, split in stores_to_make(plan)
    ]
    for future in made:
        future.wait()


def run_cells(plan: Plan, devices: Engine, page: Preliminary, study: Study | None = None) -> list[Outcome]:
    """Every cell that is not finished, the longest first, and no more groups in flight than keep the devices busy."""
    to_do = plan.to_do if study is None else study.begin()
    wanted = (lambda: plan) if study is None else study.plan
    total = len(wanted().statuses)
    fit = cost_estimator(plan.experiment, slots_for(plan))
    waiting = begun_together(to_do, fit, devices)
    ended: Ended = SimpleQueue()
    outcomes, in_flight = list[Outcome](), dict[Group, int]()  # of a group: its cells that have not ended
    with (
        page,
        Progress(total, total - len(to_do), steps_of(to_do, fit)) as progress,
        progress_artifact(plan, len(to_do)) as show,
    ):
        try:
            while True:
                for statuses in islice(waiting, max(0, devices.max_in_flight() - len(in_flight))):
                    in_flight[begin(plan, statuses, fit, devices, ended)] = len(statuses)
                if not in_flight:
                    return outcomes
                group, ending = progress.next_ended(ended, in_flight)
                outcome = ending.result()
                in_flight[group] -= 1
                if not in_flight[group]:
                    del in_flight[group]
                    progress.group_ended(group)
                outcomes.append(outcome)
                progress.ended(outcome.name, str(outcome))
                page.cell_ended(wanted, progress.done, progress.total)
                if study is not None and (further := study.after(outcome.id)):
                    waiting = chain(waiting, begun_together(further, fit, devices))
                    progress.more(len(further), steps_of(further, fit))
                show(len(outcomes))
        except BaseException:  # Ctrl-C, or SIGTERM in the shape that Prefect gives it
            devices.finish()
            progress.say(f"stopping: cells at work write a checkpoint, {GRACE:.0f} s at most; Ctrl-C again stops now")
            await_ended(ended, sum(in_flight.values()))
            raise


def begin(plan: Plan, statuses: list[Status], fit: CostEstimator, devices: Engine, ended: Ended) -> Group:
    """A task for each of these cells, which train together."""
    group = group_of(plan, statuses, fit)
    for status in statuses:
        cell.submit(job(plan, status, group), devices).add_done_callback(partial(put_ended, ended, group))
    return group


def begun_together(to_do: list[Status], fit: CostEstimator, devices: Engine) -> Iterator[list[Status]]:
    """Groups of cells that train in one process, the longest first; then what is only measured."""
    by_cell = {status.cell: status for status in to_do}
    together = group_cells(to_train(to_do), fit, devices.parallel_trainings(), devices.memory_per_slot())
    measure_only = [[status] for status in to_do if status.action == "evaluate"]
    return chain(([by_cell[cell] for cell in cells] for cells in together), measure_only)


def to_train(to_do: Iterable[Status]) -> list[Cell]:
    return [status.cell for status in to_do if status.action != "evaluate"]


def steps_of(to_do: Iterable[Status], fit: CostEstimator) -> int:
    return sum(fit.steps(cell) for cell in to_train(to_do))


def group_of(plan: Plan, statuses: list[Status], fit: CostEstimator) -> Group:
    together = {status.id: asked(plan, status, len(statuses), fit) for status in statuses}
    return Group(together, steps_of(statuses, fit))


def put_ended(ended: Ended, group: Group, future: PrefectFuture[Outcome]) -> None:
    ended.put((group, future))


def job(plan: Plan, status: Status, group: Group) -> Job:
    return Job(
        status,
        plan.experiment.name,
        plan.sections[status.cell],
        group.asked[status.id],
        group,
        plan.experiment.resources.hung_after,
    )


def asked(plan: Plan, status: Status, together: int = 1, fit: CostEstimator | None = None) -> TrainRequest:
    experiment = plan.experiment
    return TrainRequest(
        status.cell,
        plan.name(status.cell),
        experiment.resources.checkpoint_every,
        experiment.evaluation,
        experiment.speed,
        together,
        None if fit is None or status.action == "evaluate" else fit.predicted(status.cell, together),
    )


def await_ended(ended: Ended, in_flight: int) -> None:
    """Wait for the cells in flight to end, but not for ever."""
    deadline = time.monotonic() + GRACE
    with suppress(Empty):
        while in_flight and (left := deadline - time.monotonic()) > 0:
            ended.get(timeout=left)
            in_flight -= 1


@contextmanager
def progress_artifact(plan: Plan, total: int) -> Iterator[Callable[[int], None]]:
    """The share of cells that have ended, as the Prefect UI shows it; told at most every other second."""
    artifact: Any = create_progress_artifact(
        0.0, key=f"progress-{plan.experiment.name}", description="Cells that have ended"
    )
    updated = time.monotonic()

    def show(count: int) -> None:
        nonlocal updated
        if count >= total or time.monotonic() - updated > 2:
            update_progress_artifact(artifact, min(100.0, 100.0 * count / total))
            updated = time.monotonic()

    yield show


def show_states(plan: Plan, outcomes: list[Outcome]) -> None:
    """The state of the grid, as the Prefect UI shows it: each text of the table as Markdown."""
    ended = {outcome.id: outcome for outcome in outcomes}
    rows = []
    for status in plan.statuses.values():
        outcome = ended.get(status.id)
        state, _, why = ("reused", "", status.why) if outcome is None else str(outcome).partition(": ")
        rows.append({"cell": plain(plan.name(status.cell)), "state": state, "why": plain(why), "id": status.id})
    create_table_artifact(
        key=f"grid-{plan.experiment.name}", table=rows, description=f"Cells of {plan.experiment.name}"
    )


def summary(failed: list[Outcome], report: Path, total: int) -> str:
    lines = [f"{len(failed)} of {total} cells failed, the others are done; report: {report}"]
    return "\n".join(lines + [f"  {outcome.name} ({outcome.id}): {outcome.failed}" for outcome in failed])
