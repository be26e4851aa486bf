"""Interface of engines, errors for lost and stopped work, and the watchdog that detects hung work."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from contrastive.errors import UserError
from contrastive.runs.stopping import Stopped

LOOK_EVERY = 2.0  # seconds between two checks of running work


class WorkerLost(RuntimeError):
    """The process that did the work died: killed, out of memory, or a crash below Python."""

    kind = "infrastructure"


class Hung(WorkerLost):
    """The process was killed because its work made no progress."""

    kind = "hung"


class Watch:
    """Detects hung work: `look` calls `progress`, and returns an error to kill with if nothing changed for too long."""

    def __init__(self, progress: Callable[[], object], patience: float):
        """`progress` returns None before the work has begun: waiting for a device is not hanging."""
        self.progress, self.patience = progress, patience
        self.seen, self.since = progress(), time.monotonic()

    def look(self) -> Hung | None:
        """Return the reason to kill the work; None while it makes progress."""
        if (now := self.progress()) is None or now != self.seen:
            self.seen, self.since = now, time.monotonic()
        idle = time.monotonic() - self.since
        if idle <= self.patience:
            return None
        return Hung(f"no step ended for {idle:.0f} s; the work was considered hung and was killed")


class Engine(ABC):
    """Runs the work of cells; the choice of engine never changes a result."""

    def __init__(self, permit: Path, share: float = 0.0):
        """`share`: share of a GPU for each process of a cell; 0 without GPUs."""
        self.permit, self.share, self.stopped = permit, share, False

    @abstractmethod
    def run(
        self,
        stage: str,
        work: Callable[..., Any],
        *arguments: Any,
        processes: int = 1,
        assist: Callable[..., Any] | None = None,
        watch: Watch | None = None,
    ) -> Any:
        """Run `work` when there is room for it, and return its result. Raises WorkerLost or Stopped.

        Work larger than a machine gets the keyword `machines` on the first machine; each other machine runs
        `assist(its index)`, which returns its failure.
        """

    @abstractmethod
    def check_capacity(self, processes: int) -> None:
        """Raise UserError if a cell with this many processes could never start."""
        if 0 < self.share < 1 < processes:
            raise UserError(
                f"a cell of {processes} processes needs a whole GPU for each, but gpus_per_cell is {self.share:g}; set "
                "it to 1, or to 0 to train without GPUs"
            )

    @abstractmethod
    def max_in_flight(self) -> int:
        """Return the number of cells to submit at a time: enough that no device waits, and no more."""

    def state(self) -> str:
        """Return what a scheduler does with the work; empty if what runs is known here."""
        return ""

    def finish(self) -> None:
        """Begin nothing more, and let running trainings end with a checkpoint soon."""
        self.stopped = True
        self.permit.unlink(missing_ok=True)

    @abstractmethod
    def stop(self) -> None:
        """End every process now. Running and waiting work raises Stopped."""

    def check(self) -> None:
        if self.stopped:
            raise Stopped
