"""Progress of a grid in the terminal: one line per ended cell, and a bar or a line per minute with what runs."""

import sys
import time
from collections.abc import Callable, Collection
from queue import Empty, SimpleQueue
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from contrastive.errors import brief_name, printable
from reports.markdown import duration
from tasks.cell import Job


class Progress:
    """In a terminal, a bar of all cells with what runs beside it; otherwise a line per minute.

    `steps`: optimizer steps of all cells to train.
    """

    def __init__(self, total: int, reused: int, steps: int):
        self.console = Console(file=sys.stderr, highlight=False, emoji=False)
        self.total, self.done, self.steps, self.steps_ended = total, reused, steps, 0
        self.every = 1.0 if self.console.is_terminal else 60.0  # seconds
        self.began = self.shown = time.monotonic()
        text = TextColumn("{task.description}", markup=False)
        columns = BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), text
        self.bar = Bar(*columns, console=self.console, disable=not self.console.is_terminal)
        self.task = self.bar.add_task("", total=total, completed=reused)

    def __enter__(self) -> Self:
        self.say(f"{self.total} cells, {self.done} of them finished before")
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def more(self, count: int, steps: int) -> None:
        """Add cells to the total."""
        self.total += count
        self.steps += steps
        self.bar.update(self.task, total=self.total)

    def say(self, text: str) -> None:
        self.console.print(printable(text), markup=False, soft_wrap=True)  # printed above the bar

    def ended(self, job: Job, result: str) -> None:
        self.done += 1
        self.steps_ended += job.steps
        self.bar.advance(self.task)
        self.say(f"[{self.done}/{self.total}] {job.name}: {result}")

    def next_ended(self, ended: SimpleQueue[Any], running: Collection[Job], state: Callable[[], str]) -> Any:
        """Return the next item of `ended`; show the progress of the running cells meanwhile. `state`: what a scheduler
        does, empty without one."""
        while True:
            try:
                return ended.get(timeout=max(0.0, self.shown + self.every - time.monotonic()))
            except Empty:
                self.shown = time.monotonic()
                self.show(running, state())

    def show(self, running: Collection[Job], state: str = "") -> None:
        """Update the bar, or print a line."""
        seconds, step = time.monotonic() - self.began, self.steps_ended + sum(job.step() for job in running)
        left = f"about {duration(seconds * (self.steps - step) / step)} left, " if 0 < step < self.steps else ""
        names = "; ".join(f"{brief_name(job.name)}, step {job.step()} of {job.steps}" for job in running)
        doing = f"jobs: {state}" if state else f"running: {names}"
        if self.console.is_terminal:
            self.bar.update(self.task, description=printable(f"{left}{doing}"))
        else:
            self.say(f"{duration(seconds)}: {self.done} of {self.total} cells have ended, {left}{doing}")
