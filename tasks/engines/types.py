"""Interface of engines, errors for lost and stopped work, and the watch that detects hung work."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from contrastive.errors import UserError
from contrastive.runs.stopping import Stopped

LOOK_EVERY = 2.0  # seconds between two looks at work that runs


class WorkerLost(RuntimeError):
    """The process that did the work died: killed, out of memory, or a crash below Python."""


class Watch:
    """Looks at work while it runs: tells what it finds, and notices when nothing has changed for too long."""

    def __init__(self, progress: Callable[[], object], patience: float):
        """`progress` gives None before the work has begun: who waits for a device does not hang."""
        self.progress, self.patience = progress, patience
        self.seen, self.since = progress(), time.monotonic()

    def look(self) -> str:
        """Why the work is to be ended; empty as long as it goes on."""
        if (now := self.progress()) is None or now != self.seen:
            self.seen, self.since = now, time.monotonic()
        idle = time.monotonic() - self.since
        return f"no step ended for {idle:.0f} s: taken for hung, and killed" if idle > self.patience else ""


class Engine(ABC):
    """Runs the work of cells; where it runs never changes a number."""

    def __init__(self, permit: Path, share: float = 0.0):
        """`share`: of a device, for each process of a cell; 0 where there are none."""
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
        """Do the work and give its result, once there is room for it. Raises `WorkerLost` or `Stopped`.

        Of work larger than a machine, the first one is told of the others by the keyword `machines`, and each other one
        does `assist(its index)`, which says what was lost.
        """

    @abstractmethod
    def check_capacity(self, processes: int) -> None:
        """Raises where a cell of so many processes could never begin."""
        if 0 < self.share < 1 < processes:
            raise UserError(
                f"a cell of {processes} processes needs a whole GPU for each, and gpus_per_cell is {self.share:g}: "
                "take 1, or 0 to train without GPUs"
            )

    @abstractmethod
    def max_in_flight(self) -> int:
        """Return the number of cells to submit at a time: enough that no device waits, and no more."""

    @abstractmethod
    def parallel_trainings(self) -> int:
        """Return how many single-process trainings can run at a time."""

    def memory_per_slot(self) -> int | None:
        """Return the bytes available to the cells that train together; None if unknown."""
        return None

    def finish(self) -> None:
        """Begin nothing more, and have what trains end with a checkpoint, soon."""
        self.stopped = True
        self.permit.unlink(missing_ok=True)

    @abstractmethod
    def stop(self) -> None:
        """End every process now. What ran or waits here raises `Stopped`."""

    def check(self) -> None:
        if self.stopped:
            raise Stopped
