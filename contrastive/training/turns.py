"""Train several cells in one process, one step of each in turn.

They share the encoder's frozen weights, and each pass of its frozen blocks that begins with the same tokens and random
numbers. A cell's results are bitwise the same whichever cells it trains with.
"""

import itertools
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from contrastive.models.frozen import PassCache
from contrastive.runs import stopping
from contrastive.training.failures import failure_kind, record_failure, run_stage
from contrastive.training.request import TrainRequest
from contrastive.training.train_cell import train_cell, training_steps


def train_interleaved(requests: dict[Path, TrainRequest]) -> dict[str, dict[str, Any] | None]:
    """Train the cells; return each one's failure report, or None, by the name of its folder."""
    group = InterleavedTraining(requests)
    with ExitStack() as stack:  # close the generators here: a stored exception's traceback would keep them open
        for steps in group.running.values():
            stack.callback(steps.close)
        for number in itertools.count():
            if not group.running:
                break
            group.step_of_each(number)
    for folder in group.to_train_alone:
        group.reports[folder.name] = run_stage(train_alone, folder, replace(requests[folder], together=1))
    return group.reports


def train_alone(folder: Path, request: TrainRequest) -> None:
    """Train a cell, unless the work was stopped: it has a checkpoint, or has not begun."""
    if stopping.stop_requested():
        raise stopping.Stopped
    train_cell(folder, request)


class InterleavedTraining:
    """The cells still training, the reports of those that ended, and those that ran out of memory beside the others."""

    def __init__(self, requests: dict[Path, TrainRequest]) -> None:
        self.passes = PassCache(sharing=all(request.speed.reuse != "none" for request in requests.values()))
        # Claimed in the order of their names, so that two groups that want the same cells never wait for each other.
        self.running: dict[Path, Any] = {
            folder: training_steps(folder, requests[folder], self.passes) for folder in sorted(requests)
        }
        self.begun: set[Path] = set()
        self.reports: dict[str, dict[str, Any] | None] = {}
        self.to_train_alone: list[Path] = []

    def step_of_each(self, number: int) -> None:
        """Run a step of each cell. The first cell computes what the others share, so another one is first each time."""
        folders = list(self.running)
        first = number % len(folders)
        for folder in folders[first:] + folders[:first]:
            if not self._advance(folder):
                del self.running[folder]
        self.passes.forget()

    def _advance(self, folder: Path) -> bool:
        try:
            if folder not in self.begun and stopping.stop_requested():
                raise stopping.Stopped  # before it loads its model
            self.begun.add(folder)
            next(self.running[folder])
            return True
        except StopIteration:
            self.reports[folder.name] = None
        except Exception as error:
            if failure_kind(error) == "memory":
                self.to_train_alone.append(folder)
            else:
                self.reports[folder.name] = record_failure(folder, error)
        return False
