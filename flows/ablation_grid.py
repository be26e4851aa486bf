"""The flow `ablation-grid`: train, evaluate and record every cell of an experiment file, then write the report."""

import logging
import time
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Annotated, Any, TypeAlias, cast

from prefect import flow
from prefect.artifacts import create_markdown_artifact
from prefect.futures import PrefectFuture
from prefect.runtime import flow_run
from prefect.states import Completed
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner
from pydantic import Field

from contrastive.config.base import Share
from contrastive.config.cell import Cell
from contrastive.config.experiment import Speed
from contrastive.grid import frozen_readers, load
from contrastive.grid import plan as plans
from contrastive.grid.choose import candidates, require_settled, settled
from contrastive.grid.estimate import CostEstimator, in_order
from contrastive.grid.expand import LoadedExperiment
from contrastive.grid.plan import Plan, tokens_folder
from contrastive.grid.status import Status
from contrastive.runs import plugins
from contrastive.training.job import TrainRequest
from flows.forecast import preflight_report, resources_of
from flows.progress import Progress
from flows.serve.servers import begin_flow
from flows.terminal import LARGEST_MAX_SEEDS, ExitWith, check_seed_options, seconds_of, tell
from flows.until_decided import GrowingGrid
from flows.upkeep import apply_file
from tasks import engines
from tasks.cell import Job, Outcome, cell, guide, prefix, references
from tasks.engines import Engine, EngineName
from tasks.engines.on_slurm import Batch
from tasks.report import BuiltReport, report_task
from tasks.sync import prepare_tracking, sync

GRACE = 25.0  # seconds for running cells to write a checkpoint; Prefect kills the flow after 30 s
USUAL_MAX_SEEDS = 20  # if max_seeds is left out
Seeds = Annotated[int, Field(ge=2, le=LARGEST_MAX_SEEDS)]

logger = logging.getLogger(__name__)

EndedQueue: TypeAlias = SimpleQueue[tuple[Job, PrefectFuture[Outcome]]]
# threads that wait for cells; `Engine.max_in_flight` limits the cells
supervisors: TaskRunner[Any] = ThreadPoolTaskRunner(max_workers=10_000)


def experiment_of_run() -> str:
    """Name a flow run after its experiment file."""
    return Path(flow_run.parameters["experiment_file"]).stem


@flow(name="ablation-grid", flow_run_name=experiment_of_run, task_runner=supervisors, persist_result=False)
def ablation_grid(
    experiment_file: str,
    engine: EngineName = "local",
    gpus_per_cell: Share | None = None,
    until_decided: bool = False,
    max_seeds: Seeds | None = None,
    budget: str = "",
    regardless: bool = False,
) -> str:
    """Train, evaluate, record and report every cell of an experiment file; finished cells are reused.

    Args:
        experiment_file: path of the experiment file, for example configs/quickstart.yaml
        engine: local (this machine's devices), ray (the cluster at RAY_ADDRESS), slurm (jobs with the settings
            resources.slurm of the file) or inline (one by one, to debug)
        gpus_per_cell: share of a GPU per cell, overrides the file; 0.5 packs two cells on one GPU, 0 uses none
        until_decided: start with two seeds and add more where undecided, instead of the seeds of the file
        max_seeds: maximum number of seeds per configuration with until_decided; 20 if left out
        budget: time after which until_decided adds no more seeds, for example 90m or 2h
        regardless: with until_decided, add seeds also where they will hardly decide (a chance below 0.1)
    """
    begin_flow()
    file = Path(experiment_file).absolute()
    resolved = load.load_experiment(file)
    check_seed_options(until_decided, max_seeds, budget, regardless)
    found = settled(resolved)
    if found is None:
        run_grid(candidates(resolved.experiment), file, engine, gpus_per_cell)
        found = require_settled(resolved)
    growing = None
    if until_decided:
        most, seconds = max_seeds or USUAL_MAX_SEEDS, seconds_of("the budget", budget) if budget else None
        growing = GrowingGrid(found, most, seconds, gives_up=not regardless)
    return run_grid(found, file, engine, gpus_per_cell, growing)


def run_grid(
    resolved: LoadedExperiment,
    file: Path,
    engine: EngineName,
    gpus_per_cell: float | None,
    growing: GrowingGrid | None = None,
) -> str:
    """Run, record and report one grid; return the line to print."""
    plan = growing.full_plan if growing else plans.make_plan(resolved)
    plugins.refuse_others(plan.experiment.plugins)
    problems = preflight_report(plan, gpus_per_cell, engine)
    problems.refuse()
    for warning in problems.warnings:
        logger.warning(warning)
    plans.declare_plan(plan, growing.stopping() if growing else None)
    batch = Batch(file, plan.experiment.name, plan.experiment.resources.slurm, growing.most_seeds if growing else None)
    with engines.start(engine, resources_of(plan, gpus_per_cell), plan.most_threads, batch) as devices:
        devices.check_capacity(max((status.cell.training.processes for status in plan.to_do), default=1))
        prepare_tracking(plan.experiment.name)
        if "test" in plan.experiment.evaluation.embedded():
            references(plan, devices)
        share_prefixes(plan, devices)
        outcomes = run_cells(plan, devices, growing)
    plan, stopping = (growing.plan(), growing.stopping()) if growing else (plan, None)
    failed = [outcome for outcome in outcomes if outcome.failed]
    name, total = plan.experiment.name, len(plan.statuses)
    synced = sync(plan, stopping)  # all cells, reused ones too
    built = report_task(name, synced.runs)
    message = show_report(name, built)
    if failed:
        lines = [f"  {outcome.name} ({outcome.id}): {outcome.failed}" for outcome in failed]
        others = ", the others are done" if len(failed) < total else ""
        headline = f"{len(failed)} of {total} cells failed{others}; report: {built.path}"
        raise ExitWith("\n".join([headline, *lines]))
    return message


def show_report(experiment: str, report: BuiltReport) -> str:
    """Print the finding, and show the report in the Prefect UI.

    Returns the state at the end of the flow: its message is the finding, its data the path of the report.
    """
    tell(report.finding)
    create_markdown_artifact(key=f"report-{experiment}", markdown=report.markdown())
    return cast(str, Completed(message=report.finding, data=str(report.path)))


def share_prefixes(plan: Plan, devices: Engine) -> None:
    """Compute the vectors by guides and the outputs of frozen blocks before the cells that read them start, one split
    per device."""
    guided = frozen_readers.guides_to_make(plan.to_train, plan.token_key)
    futures = [guide.submit(cell, tokens_folder(plan.token_key(cell)), devices) for cell in guided]
    futures += [
        prefix.submit(reader, speed, tokens_folder(plan.token_key(reader)), split, devices)
        for reader, speed, split in stores_to_make(plan)
    ]
    for future in futures:
        future.wait()


def stores_to_make(plan: Plan) -> list[tuple[Cell, Speed, str]]:
    """Return each store of frozen-block outputs that the cells to train will read, once. With `evaluation.test`, the
    first cell makes the store of the test split."""
    larger = plan.experiment.evaluation.test is not None
    splits = tuple(split for split in plan.experiment.evaluation.embedded() if not (larger and split == "test"))
    read = (
        store for cell in plan.to_train for store in frozen_readers.stores_read(cell, plan.experiment.speed, splits)
    )
    return list({frozen_readers.store_identity(*store, plan.token_key(store[0])): store for store in read}.values())


@flow(name="report", flow_run_name=experiment_of_run, persist_result=False)
def report(experiment_file: str) -> str:
    """Rebuild the report of an experiment.

    Args:
        experiment_file: path of the experiment file, for example configs/quickstart.yaml
    """
    name = apply_file(Path(experiment_file))
    return show_report(name, report_task(name))


def run_cells(plan: Plan, devices: Engine, growing: GrowingGrid | None = None) -> list[Outcome]:
    """Run every unfinished cell, longest first, with just enough cells in flight to keep the devices busy."""
    to_do = growing.next_cells() if growing else plan.to_do
    total = len((growing.plan() if growing else plan).statuses)
    fit = CostEstimator(plan.experiment.evaluation, plan.experiment.speed)
    waiting = iter(ordered(to_do, fit))
    ended: EndedQueue = SimpleQueue()
    outcomes, in_flight = list[Outcome](), set[Job]()
    with Progress(total, total - len(to_do), steps_of(to_do, fit)) as progress:
        try:
            while True:
                for status in islice(waiting, max(0, devices.max_in_flight() - len(in_flight))):
                    in_flight.add(begin(plan, status, fit, devices, ended))
                if not in_flight:
                    return outcomes
                done, ending = progress.next_ended(ended, in_flight, devices.state)
                outcome = ending.result()
                in_flight.remove(done)
                outcomes.append(outcome)
                progress.ended(done, str(outcome))
                if growing and (added := growing.after(outcome.id)):
                    waiting = chain(waiting, ordered(added, fit))
                    progress.more(len(added), steps_of(added, fit))
        except BaseException:  # Ctrl-C, or SIGTERM as Prefect raises it
            devices.finish()
            progress.say(f"stopping: running cells write a checkpoint ({GRACE:.0f} s at most); Ctrl-C again stops now")
            await_ended(ended, len(in_flight))
            raise


def begin(plan: Plan, status: Status, fit: CostEstimator, devices: Engine, ended: EndedQueue) -> Job:
    """Submit the task of a cell."""
    experiment, resources, of = plan.experiment, plan.experiment.resources, status.cell
    request = TrainRequest(of, plan.name(of), resources.checkpoint_every, experiment.evaluation, experiment.speed)
    steps = steps_of([status], fit)
    begun = Job(status, experiment.name, plan.resolved.titles[of], request, resources.hung_after, steps)
    cell.submit(begun, devices).add_done_callback(lambda future: ended.put((begun, future)))
    return begun


def ordered(to_do: list[Status], fit: CostEstimator) -> list[Status]:
    """Return the cells to train, longest first; then cells that are only evaluated."""
    by_cell = {status.cell: status for status in to_do}
    trained = in_order((status.cell for status in to_do if status.trains), fit)
    return [by_cell[cell] for cell in trained] + [status for status in to_do if not status.trains]


def steps_of(to_do: Iterable[Status], fit: CostEstimator) -> int:
    return sum(fit.steps(status.cell) for status in to_do if status.trains)


def await_ended(ended: EndedQueue, in_flight: int) -> None:
    """Wait up to GRACE seconds for the cells in flight to end."""
    deadline = time.monotonic() + GRACE
    with suppress(Empty):
        while in_flight and (left := deadline - time.monotonic()) > 0:
            ended.get(timeout=left)
            in_flight -= 1
