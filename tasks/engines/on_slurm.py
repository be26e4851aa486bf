"""Engine `slurm`: a throttled array of `ablate worker` jobs, which take the cells that this process lists.

Slurm only starts and ends workers. What is done stands in the run folders, so that jobs may be preempted, requeued or
forgotten, and the submitting process may end and begin again.
"""

import getpass
import hashlib
import os
import shlex
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contrastive.config.experiment import Slurm
from contrastive.errors import UserError
from contrastive.grid.identity import evaluation_key
from contrastive.grid.status import up_to_date
from contrastive.runs import stopping, store
from tasks import worker_calls
from tasks.engines.local import Slot
from tasks.engines.types import LOOK_EVERY, Engine, Watch

ASK_EVERY = 30.0  # seconds between two calls of squeue
MOST_IN_VAIN = 3  # arrays that end without a cell
USUAL_ARRAY = 1001  # MaxArraySize, where Slurm does not say it


@dataclass(frozen=True)
class Batch:
    """The jobs of one experiment. `most_seeds`: of a study that adds seeds."""

    file: Path
    experiment: str
    settings: Slurm
    most_seeds: int | None = None

    @property
    def folder(self) -> Path:
        return store.home() / "workers" / self.experiment

    @property
    def name(self) -> str:
        """The name of its jobs; homes of one user may have experiments of one name."""
        return f"ablate-{self.experiment}-{hashlib.sha256(str(store.home()).encode()).hexdigest()[:6]}"

    def script(self, cells: int) -> str:
        """Return the job script for so many cells."""
        settings, most = self.settings, largest_array()
        options = {"partition": settings.partition, "account": settings.account, "gres": settings.gres}
        lines = [
            f"--job-name={self.name}",
            f"--array=0-{min(cells, most) - 1}%{settings.workers}",
            f'--output="{self.folder}/slurm-%A-%a.log"',
            f"--time={settings.time}",
            "--requeue",
            "--open-mode=append",
            "--signal=B:USR1@120",
            *(f"--{name}={value}" for name, value in options.items() if value is not None),
        ]
        words = [str(Path(sys.executable).parent / "ablate"), "worker", str(self.file), "--listed"]
        return "\n".join(
            [
                "#!/bin/bash",
                *(f"#SBATCH {line}" for line in lines),
                *settings.lines,
                f"export ABLATE_HOME={shlex.quote(str(store.home()))}",
                f"exec {shlex.join(words)}",  # exec: the signal reaches the worker
                "",
            ]
        )

    def list_cells(self, cells: Mapping[str, float | None]) -> None:
        """Write the list from which workers take cells: each with the time at which it had failed before."""
        store.write_json(self.folder / "listed.json", {"cells": cells, "most_seeds": self.most_seeds})

    def submit(self, cells: int) -> str:
        """Submit the array; return the answer of sbatch."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return slurm("sbatch", given=self.script(cells)).strip()

    def jobs(self) -> Counter[str]:
        """Count the jobs by state, such as RUNNING and PENDING."""
        listed = slurm("squeue", "--noheader", "--array", f"--user={getpass.getuser()}", f"--name={self.name}", "-o%T")
        return Counter(listed.split())

    def cancel(self) -> None:
        slurm("scancel", f"--user={getpass.getuser()}", f"--name={self.name}")


def slurm(*command: str, given: str = "") -> str:
    """Run a command of Slurm, and return what it prints; raise UserError with its words if it fails."""
    try:
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=60)
    except FileNotFoundError:
        raise UserError(f"the engine slurm needs Slurm's `{command[0]}` on this machine") from None
    except subprocess.TimeoutExpired:
        raise UserError(f"Slurm's `{command[0]}` did not answer within 60 s") from None
    if done.returncode:
        raise UserError(f"Slurm's `{command[0]}` failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def largest_array() -> int:
    """Return how many indices an array may have."""
    for line in slurm("scontrol", "show", "config").splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "MaxArraySize":
            return max(1, int(value)) if value.strip().isdecimal() else USUAL_ARRAY
    return USUAL_ARRAY


class OnSlurm(Engine):
    """Lists cells for the workers of a batch, and waits until their results are in the store."""

    def __init__(self, permit: Path, batch: Batch):
        super().__init__(permit)
        self.batch, self.wanted, self.seen = batch, dict[str, float | None](), Counter[str]()
        self.failed_before = dict[str, float | None]()
        self.listing, self.problem = threading.Lock(), ""
        environment = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", stopping.VARIABLE: str(permit)}
        self.here = Slot(environment)  # for what the cells share: tokens and references
        batch.jobs()  # raises if there is no Slurm
        self.supervisor = threading.Thread(target=self.supervise, daemon=True)
        self.supervisor.start()

    def run(
        self,
        stage: str,
        work: Callable[..., Any],
        *arguments: Any,
        processes: int = 1,
        assist: Callable[..., Any] | None = None,
        watch: Watch | None = None,
    ) -> Any:
        self.check()
        if work == worker_calls.prefix:
            return None  # the first cell that reads the outputs of frozen blocks stores them
        if work == worker_calls.train:
            return self.result(arguments[1], lambda run: store.damage(run, "TRAINED") is None, watch)
        if work == worker_calls.evaluate:
            key = evaluation_key(arguments[1])
            return self.result(arguments[0], lambda run: up_to_date(run, key), watch)
        return self.here.run(work, *arguments)

    def result(self, cell: str, ended: Callable[[Path], bool], watch: Watch | None) -> dict[str, Any] | None:
        """Wait for a stage of a cell; return the report of its failure, or None."""
        run = store.run_folder(cell)
        with self.listing:
            before = self.wanted[cell] = self.failed_before.setdefault(cell, failed_at(run))
        try:
            while not ended(run):
                if failed_at(run) not in (None, before) and not is_worked_on(cell):
                    return (store.failure(run) or {}) | {"by_workers": True}  # which have tried as often as they may
                self.check()
                if self.problem:
                    raise UserError(self.problem)
                if watch is not None:
                    watch.progress()  # sends curves to MLflow; workers end what hangs
                time.sleep(LOOK_EVERY)
            return None
        finally:
            with self.listing:
                self.wanted.pop(cell, None)

    def supervise(self) -> None:
        """List the cells that are waited for, and submit workers while there are any and no job waits or runs."""
        in_vain, refused, listed, submitted = 0, 0, dict[str, float | None](), dict[str, float | None]()
        while not self.stopped:
            with self.listing:
                waiting = dict(self.wanted)
            with suppress(UserError, OSError):  # Slurm's controller or the disk may be away for a while
                if waiting != listed:
                    self.batch.list_cells(waiting)
                    if len(waiting) > len(listed):  # more may be added now
                        listed = waiting
                        self.wait(1.0)
                        continue
                    listed = waiting
                self.seen = self.batch.jobs()
                if waiting and not self.seen:
                    in_vain = in_vain + 1 if waiting == submitted else 0
                    if in_vain > MOST_IN_VAIN:
                        self.problem = f"{MOST_IN_VAIN} arrays ended in vain; their logs are in {self.batch.folder}"
                        return
                    try:
                        self.batch.submit(len(waiting))
                    except UserError as error:
                        refused += 1
                        if refused == MOST_IN_VAIN:
                            self.problem = str(error)
                            return
                        raise
                    submitted, refused = waiting, 0
            self.wait(ASK_EVERY if listed and not refused else 1.0)

    def wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self.stopped and time.monotonic() < end:
            time.sleep(0.5)

    def state(self) -> str:
        """Return what the jobs do, for the progress."""
        return ", ".join(f"{count} {state.lower()}" for state, count in sorted(self.seen.items())) or "no job yet"

    def check_capacity(self, processes: int) -> None:
        super().check_capacity(processes)  # workers refuse what their job has no room for

    def max_in_flight(self) -> int:
        return 10_000  # all cells are listed at once

    def finish(self) -> None:
        """Begin nothing more, and cancel the jobs: at SIGTERM their cells write a checkpoint."""
        if not self.stopped and not self.problem and self.wanted:
            with suppress(UserError):
                self.batch.cancel()
        super().finish()

    def stop(self) -> None:
        super().finish()
        self.supervisor.join()
        with suppress(UserError, OSError):  # also an array that was submitted meanwhile, and what is left of others
            if self.batch.jobs():
                self.batch.cancel()
        self.here.close()


def failed_at(run: Path) -> float | None:
    """Return when FAILED.json was written; None if there is none."""
    try:
        return os.stat(run / "FAILED.json").st_mtime
    except OSError:
        return None


def cell_lock(cell: str) -> Path:
    """Return the lock of the worker that has a cell."""
    return store.home() / "workers" / "cells" / cell


def is_worked_on(cell: str) -> bool:
    """Return whether a worker has a cell."""
    with store.locked(cell_lock(cell), timeout=0) as is_free:
        return not is_free
