"""`ablate worker`: train and evaluate the cells of an experiment together with other workers of its home, without
Prefect, MLflow and report. `ablate run` of the same file then records and reports what they made."""

import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any

from contrastive.config.cell import Cell
from contrastive.data import data_digest
from contrastive.errors import UserError
from contrastive.evaluation.prepare import lacks_embeddings
from contrastive.grid import frozen_readers
from contrastive.grid.choose import candidates, settled
from contrastive.grid.estimate import CostEstimator, in_order
from contrastive.grid.expand import with_seeds
from contrastive.grid.identity import evaluation_key, registry_choices, stages
from contrastive.grid.load import load_experiment
from contrastive.grid.plan import Plan, make_plan, name_cells
from contrastive.grid.status import Status, outcome
from contrastive.runs import claim, plugins, provenance, stopping, store
from contrastive.runs.fingerprint import code_digests
from contrastive.training.job import TrainRequest
from contrastive.training.processes import start_fork_server
from flows.forecast import preflight_report
from flows.terminal import ExitWith, say, seconds_of, tell
from tasks import engines, worker_calls
from tasks.engines import Engine, Stopped, Watch, WorkerLost
from tasks.engines.on_slurm import cell_lock, failed_at, slurm

ROOM = 120.0  # seconds in which any cell can begin and write a checkpoint
GRACE = 30.0  # seconds before the end at which running cells write their checkpoints
LAST = 100.0  # seconds from a signal to the end of what does not end by itself; Slurm signals 120 s before its end
POLL = 2.0  # seconds between two looks for a cell that nobody works on
STOP_SIGNALS = (signal.SIGTERM, signal.SIGUSR1)


class HandedBack(ExitWith):
    """The worker ended before the experiment: cells are left, some with a checkpoint."""

    exit_code = 75


def run_worker(experiment: Path, until: str, listed: bool = False) -> None:
    """Work until no cell of the experiment is left. Raise ExitWith if cells failed, HandedBack if cells are left."""
    tell(f"reading {experiment}")
    deadline = end_of_work(until)
    store.check_home()
    resolved = load_experiment(experiment)
    plugins.refuse_others(resolved.experiment.plugins)
    found = settled(resolved)
    plan = make_plan(found or candidates(resolved.experiment))
    failed_before: dict[str, float | None] = {}
    if listed:
        plan, failed_before = listed_plan(plan)
    preflight_report(plan).refuse()
    if not listed:  # `ablate clean` keeps them
        name_cells(plan.experiment.name, [status.id for status in plan.statuses.values()])
    with registered(plan):
        start_fork_server()
        with (
            engines.start("local", plan.experiment.resources, plan.most_threads) as devices,
            stopped_by_signals(devices) as signals,
        ):
            devices.check_capacity(max((cell.training.processes for cell in plan.to_train), default=1))
            worker = Worker(plan, devices, deadline, failed_before)
            begins = any(worker.fits(status) for status in worker.left.values())
            tell(f"{len(worker.left)} cells to do in {store.home()}")
            worker.run()
    if begins and worker.left and signal.SIGTERM not in signals and (job := slurm_job()):
        with suppress(UserError):  # where jobs may not be requeued, another one goes on
            slurm("scontrol", "requeue", job)  # its wall time is over
    worker.refuse()
    then = "records and reports them" if found else "chooses the values and goes on"
    ended = f"all {len(plan.statuses)} cells have ended" if plan.statuses else "no cell is listed"
    say(f"{ended}; `ablate run {experiment}` {then}")


def listed_plan(plan: Plan) -> tuple[Plan, dict[str, float | None]]:
    """Return the plan of the cells that `ablate run --engine slurm` lists, and when they had failed before; raise
    UserError if this program would compute others."""
    path = store.home() / "workers" / plan.experiment.name / "listed.json"
    content = store.read_json(path) if path.exists() else {"cells": {}, "most_seeds": None}
    if content["most_seeds"] is not None:
        plan = make_plan(with_seeds(plan.resolved, content["most_seeds"]))
    listed = content["cells"]
    wanted = {cell: status for cell, status in plan.statuses.items() if status.id in listed}
    if missing := len(listed) - len(wanted):
        raise UserError(
            f"{missing} of {len(listed)} listed cells are not those of this machine: the file, the code or the data "
            "differ from those that `ablate run` read"
        )
    return Plan(plan.resolved, wanted), listed


def end_of_work(until: str) -> float | None:
    """Return when this worker has to end, in seconds since 1970: after the time `until`, or with its Slurm job."""
    if until:
        return time.time() + seconds_of("--until", until)
    if not (job := slurm_job()):
        return None
    try:
        return datetime.fromisoformat(slurm("squeue", "--noheader", f"--jobs={job}", "-o%e").strip()).timestamp()
    except ValueError:  # it has no end
        return None


def slurm_job() -> str:
    """Return the Slurm job that this is; empty if it is none. In an array, one SLURM_JOB_ID is that of the whole."""
    if array := os.environ.get("SLURM_ARRAY_JOB_ID"):
        return f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}"
    return os.environ.get("SLURM_JOB_ID", "")


@contextmanager
def stopped_by_signals(devices: Engine) -> Iterator[list[int]]:
    """At SIGTERM and SIGUSR1, hand running cells back and begin no more. Yield the signals that came."""
    came = list[int]()

    def stop(number: int, frame: FrameType | None) -> None:
        came.append(number)
        hand_back(devices, LAST)

    before = {number: signal.signal(number, stop) for number in STOP_SIGNALS}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def hand_back(devices: Engine, seconds: float) -> None:
    """Let running cells write a checkpoint, and after so long end what writes none, such as an evaluation."""
    stopping.preempt(devices.permit)
    devices.finish()
    last = threading.Timer(seconds, devices.stop)
    last.daemon = True
    last.start()


@contextmanager
def registered(plan: Plan) -> Iterator[None]:
    """Register this worker while it works. Raise UserError if another one has other code or packages, with which it
    would compute other cells."""
    folder = store.home() / "workers" / plan.experiment.name / "at-work"
    ours, path = described(plan), folder / f"{socket.gethostname()}-{os.getpid()}.json"
    with store.locked(path.with_suffix(".lock")):
        store.write_json(path, ours)  # first, so that of two that begin at once one sees the other
        try:
            for other in sorted({*folder.glob("*.json")} - {path}):
                compare_if_alive(ours, other)
            yield
        finally:
            forget(path)


def compare_if_alive(ours: dict[str, Any], path: Path) -> None:
    """Compare with another worker; forget one whose process has ended."""
    with store.locked(path.with_suffix(".lock"), timeout=0) as has_ended:
        if has_ended:
            return forget(path)
    with suppress(FileNotFoundError):  # it ends just now
        compare(ours, store.read_json(path))


def forget(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.with_suffix(".lock").unlink(missing_ok=True)


def described(plan: Plan) -> dict[str, Any]:
    choices = {(stages(cell), registry_choices(cell)) for cell in plan.resolved.cells}
    files = {module: digest for each in choices for module, digest in code_digests(*each).items()}
    run = provenance.describe_run("")
    data = {f"{each.source}, column {each.text}": data_digest(each) for each in plan.resolved.data_names}
    where = {"cpu": run["hardware"]["cpu"], "host": socket.gethostname(), "job": slurm_job()}
    return {"code": files, "packages": run["packages"], "data": data} | where


def compare(ours: dict[str, Any], other: dict[str, Any]) -> None:
    """Raise UserError if code, packages or data of a worker differ from another's; tell if the processors do."""
    for part in ("code", "packages", "data"):
        both = ours[part].keys() & other[part].keys()
        if differing := sorted(name for name in both if ours[part][name] != other[part][name]):
            raise UserError(
                f"a worker on {other['host']} has other {part} ({', '.join(differing[:5])}): its cells would not be "
                "those of this worker; end it, or give both the same"
            )
    if ours["cpu"] != other["cpu"]:
        tell(f"a worker on {other['host']} has another processor ({other['cpu']}, here {ours['cpu']})")


class Worker:
    """Works on the cells of a plan that no other worker has, longest first."""

    def __init__(self, plan: Plan, devices: Engine, deadline: float | None, failed_before: Mapping[str, float | None]):
        """`failed_before`: when cells had failed before they were listed; others that failed are tried again."""
        self.plan, self.devices, self.deadline = plan, devices, deadline
        self.experiment = plan.experiment
        self.key = evaluation_key(self.experiment.evaluation)
        self.fit = CostEstimator(self.experiment.evaluation, self.experiment.speed)
        by_cell = {status.cell: status for status in plan.to_do}
        trained = in_order(plan.to_train, self.fit)
        ordered = [by_cell[cell] for cell in trained] + [each for each in plan.to_do if not each.trains]
        self.left = {status.id: status for status in ordered}
        self.failed: dict[str, str] = {}
        self.begun, self.told = set[str](), set[str]()  # cells, and hosts
        self.failed_before = {cell: failed_at(store.run_folder(cell)) for cell in self.left} | {**failed_before}

    def run(self) -> None:
        timer = None
        if self.deadline is not None:
            timer = threading.Timer(self.seconds_left() - 2 * GRACE, hand_back, [self.devices, GRACE])
        if timer is not None:
            timer.start()
        slots = max(1, self.devices.max_in_flight() // 2)
        try:
            with ThreadPoolExecutor(slots) as threads:
                for ended in [threads.submit(self.serve) for _ in range(slots)]:
                    ended.result()
        finally:
            if timer is not None:
                timer.cancel()
        self.left = {cell: status for cell, status in self.left.items() if not self.has_ended(status)}  # elsewhere

    def refuse(self) -> None:
        """Raise HandedBack if cells are left, ExitWith if some failed."""
        if self.left:
            raise HandedBack(f"{len(self.left)} cells are left; the same command goes on")
        if self.failed:
            lines = [f"  {self.plan.name(status.cell)} ({status.id}): {self.failed[status.id]}"
                     for status in self.plan.statuses.values() if status.id in self.failed]  # fmt: skip
            raise ExitWith("\n".join([f"{len(self.failed)} of {len(self.plan.statuses)} cells failed", *lines]))

    def serve(self) -> None:
        """Work on one cell after another, and wait for those of other workers, which may hand them back."""
        while not self.devices.stopped:
            waiting = list(self.left.values())
            if not any(self.fits(status) and self.try_one(status) for status in waiting):
                if not any(map(self.fits, waiting)):
                    return
                self.tell_of_lock_files()
                time.sleep(POLL)

    def tell_of_lock_files(self) -> None:
        """Say once which other machines hold the cells that are left, if they use lock files: they may be gone."""
        files = [cell_lock(cell).with_name(cell + store.LOCK_FILE) for cell in list(self.left)]
        hosts = {store.holder(file).partition("?")[0] for file in files} - {"", socket.gethostname()} - self.told
        self.told |= hosts
        for host in hosts:
            tell(f"waiting for cells of {host}; if that machine is gone: ablate clean --gone {host}")

    def fits(self, status: Status) -> bool:
        """Return whether there is time to finish a cell, or to begin it and write a checkpoint."""
        if self.deadline is None:
            return True
        seconds = self.fit.seconds(status.cell)
        return self.seconds_left() > 2 * GRACE + min(ROOM, ROOM if seconds is None else seconds)

    def seconds_left(self) -> float:
        return float("inf") if self.deadline is None else self.deadline - time.time()

    def try_one(self, status: Status) -> bool:
        """Work on a cell unless another worker does; return whether it was free."""
        if status.id in self.begun:
            return False
        with store.locked(cell_lock(status.id), timeout=0) as is_free:
            if not is_free or status.id not in self.left or self.devices.stopped:
                return False
            if claim.is_held(store.run_folder(status.id)):  # by `ablate run`
                return False
            self.begun.add(status.id)
            ended_elsewhere = self.has_ended(status)
            if not ended_elsewhere:
                say(f"{self.plan.name(status.cell)}: begun")
                try:
                    report = self.work(status)
                except Stopped:
                    self.devices.finish()  # unless it is stopped already, its permit is lost
                    return True
                if not self.has_ended(status):  # such as on a full disk, which takes no FAILED.json
                    self.failed[status.id] = report["error"] if report else "it has no result"
            del self.left[status.id]
            by = " by another worker" if ended_elsewhere else ""
            say(f"{self.plan.name(status.cell)}: {self.failed.get(status.id, 'ended')}{by}")
        return True

    def has_ended(self, status: Status) -> bool:
        """Return whether a cell has a result, or has failed since this worker began."""
        run = store.run_folder(status.id)
        found, reason = outcome(run, self.key)
        if found == "failed" and failed_at(run) != self.failed_before[status.id]:
            self.failed[status.id] = reason
            return True
        return found == "diverged" or (found == "finished" and store.damage(run, "TRAINED") is None)

    def work(self, status: Status) -> dict[str, Any] | None:
        """Train and evaluate a cell, as often as its failures allow. Return the report of the last failure."""
        run, tries = store.run_folder(status.id), Counter[str]()
        if claim.lost_in_a_row(run) >= claim.TRIES["infrastructure"]:
            why = "lost several times in a row before a checkpoint: killed, or out of memory"
            return claim.report_loss(run, "infrastructure", why)
        while True:
            try:
                report = self.run_stages(status, run)
            except WorkerLost as error:
                report = claim.report_loss(run, error.kind, str(error))
            if report is None:
                return None
            if report["kind"] in claim.NO_FAILURE:
                raise Stopped
            tries[report["kind"]] += 1
            if tries[report["kind"]] >= claim.TRIES.get(report["kind"], 1):
                return report

    def store_what_is_read(self, of: Cell) -> None:
        """Store the outputs of frozen blocks and the vectors by a guide that a training reads, once for all cells; no
        step ends meanwhile."""
        stores = [*frozen_readers.stores_read(of, self.experiment.speed, ())]
        if stores or of.objective.guide is not None:
            prepared = self.devices.run("evaluate", worker_calls.prepare, of)
            if of.objective.guide is not None:
                with suppress(Exception):  # which the cell itself reports
                    self.devices.run("train", worker_calls.guide, of, prepared)
            for reader, speed, split in stores:
                self.devices.run("train", worker_calls.prefix, reader, speed, prepared, split)

    def run_stages(self, status: Status, run: Path) -> dict[str, Any] | None:
        """Run the stages of a cell; return the failure of one, or None."""
        of, evaluation, resources = status.cell, self.experiment.evaluation, self.experiment.resources
        if store.damage(run, "TRAINED") is not None:
            request = TrainRequest(
                of, self.plan.name(of), resources.checkpoint_every, evaluation, self.experiment.speed
            )
            self.store_what_is_read(of)
            before = claim.latest_attempt(run)
            # a soup makes no steps, and may wait for its members
            watch = None if of.soup else Watch(lambda: progress(run, before), resources.hung_after)
            work = worker_calls.train, request, status.id
            if report := self.devices.run("train", *work, processes=of.training.processes, watch=watch):
                return dict(report)
        stage = "train" if lacks_embeddings(run, evaluation) else "evaluate"
        report = self.devices.run(stage, worker_calls.evaluate, status.id, evaluation)
        return dict(report) if report else None


def progress(run: Path, before: str) -> tuple[str, int] | None:
    """Return what changes while a cell trains: its attempt, and the size of its log; None until an attempt begins."""
    if (attempt := claim.latest_attempt(run)) == before:
        return None
    log = claim.current_folder(run) / "metrics.jsonl"
    return attempt, log.stat().st_size if log.exists() else 0
