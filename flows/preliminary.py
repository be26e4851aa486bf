"""The report while cells are at work: written anew as they end, beside the work and seldom enough not to slow it."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Self

from contrastive.cells.plan import Plan, recorded
from tasks.render import build_preliminary

EVERY = 20.0  # seconds at least between two
SHARE = 20  # times as long as one takes, at least

logger = logging.getLogger(__name__)


class Preliminary:
    """One report at a time, in a thread of its own. `references`: what the data is measured against."""

    def __init__(self, references: list[dict[str, Any]]):
        self.references, self.next = references, 0.0
        self.thread: threading.Thread | None = None

    def cell_ended(self, wanted: Callable[[], Plan], ended: int, total: int) -> None:
        """Begin to write, unless one is being written, was just now, or all have ended."""
        busy = self.thread is not None and self.thread.is_alive()
        if not busy and ended < total and time.monotonic() >= self.next:
            self.thread = threading.Thread(target=self._write, args=(wanted(), ended, total), daemon=True)
            self.thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for the one that is being written: the final one takes its place."""
        if self.thread is not None:
            self.thread.join()

    def _write(self, plan: Plan, ended: int, total: int) -> None:
        began = time.monotonic()
        try:
            build_preliminary(recorded(plan, self.references), ended, total)
        except Exception as error:  # whatever a tracking server may raise: the report at the end is what counts
            logger.info("no preliminary report: %s", error)
        now = time.monotonic()
        self.next = now + max(EVERY, SHARE * (now - began))
