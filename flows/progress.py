"""What the terminal shows while a grid runs: a bar with the time left, and a line for each cell as it ends."""

import sys
import threading
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from contrastive.errors import printable


class Progress:
    """Counts cells; safe to call from the supervisors' threads. Without a terminal only the lines are printed."""

    def __init__(self, total: int, reused: int):
        self.console = Console(file=sys.stderr, highlight=False, emoji=False)
        self.total, self.done = total, reused
        self.lock = threading.Lock()
        columns = (TextColumn("cells"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        self.bar = Bar(*columns, console=self.console, disable=not self.console.is_terminal)
        self.task = self.bar.add_task("cells", total=total, completed=reused)

    def __enter__(self) -> Self:
        self.say(f"{self.total} cells, {self.done} of them finished before")
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def more(self, count: int) -> None:
        """Further cells are wanted."""
        with self.lock:
            self.total += count
            self.bar.update(self.task, total=self.total)

    def say(self, text: str) -> None:
        self.console.print(printable(text), markup=False)  # around the bar

    def ended(self, name: str, result: str) -> None:
        with self.lock:
            self.done += 1
            self.bar.advance(self.task)
            self.say(f"[{self.done}/{self.total}] {name}: {result}")
