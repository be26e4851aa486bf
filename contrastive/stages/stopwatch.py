"""The seconds of one cell, where several take turns in a process."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Runs from its making on; what passes while it is paused belongs to other cells."""

    def __init__(self) -> None:
        self.began, self.away = time.perf_counter(), 0.0

    @contextmanager
    def paused(self) -> Iterator[None]:
        left = time.perf_counter()
        yield
        self.away += time.perf_counter() - left

    def seconds(self) -> tuple[float, float]:
        """Those of the cell alone, and all that have passed."""
        passed = time.perf_counter() - self.began
        return round(passed - self.away, 3), passed
