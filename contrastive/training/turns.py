"""Cells that train in turns in one process, a step of each after the other, so that they share what is the same: the
encoder's frozen weights, and each pass of its frozen blocks that begins with the same tokens and random numbers.

No bit of a cell depends on those it trains with.
"""

import itertools
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from contrastive.models.frozen import PassCache
from contrastive.training.failures import failure_kind, record_failure, run_stage
from contrastive.training.request import TrainRequest
from contrastive.training.train_cell import train_cell, training_steps


def train_interleaved(requests: dict[Path, TrainRequest]) -> dict[str, dict[str, Any] | None]:
    """Gives what each cell came to, by the name of its folder: a report of why it failed, or None."""
    group = InterleavedTraining(requests)
    with ExitStack() as ending:  # of a stop, which may be kept with all that it passed through
        for steps in group.running.values():
            ending.callback(steps.close)
        for number in itertools.count():
            if not group.running:
                break
            group.step_of_each(number)
    for folder in group.left:
        group.reports[folder.name] = run_stage(train_cell, folder, replace(requests[folder], together=1))
    return group.reports


class InterleavedTraining:
    """Those that still train, what became of the others, and which are `left` to train alone: others have left them
    no room, or another process has taken them over."""

    def __init__(self, requests: dict[Path, TrainRequest]) -> None:
        self.passes = PassCache(sharing=all(request.speed.reuse != "none" for request in requests.values()))
        # Claimed in the order of their names, so that two groups that want the same cells never wait for each other.
        self.running: dict[Path, Any] = {
            folder: training_steps(folder, requests[folder], self.passes) for folder in sorted(requests)
        }
        self.reports: dict[str, dict[str, Any] | None] = {}
        self.left: list[Path] = []

    def step_of_each(self, number: int) -> None:
        """Another one begins each time, and computes what the others share."""
        folders = list(self.running)
        first = number % len(folders)
        for folder in folders[first:] + folders[:first]:
            if not self._goes_on(folder):
                del self.running[folder]
        self.passes.forget()

    def _goes_on(self, folder: Path) -> bool:
        try:
            next(self.running[folder])
            return True
        except StopIteration:
            self.reports[folder.name] = None
        except Exception as error:
            if failure_kind(error) == "memory":
                self.left.append(folder)
            else:
                self.reports[folder.name] = record_failure(folder, error)
        return False
