"""Training with a clock beside it: of a cell, and by any trainer of transformers."""

import json
import time
from pathlib import Path
from typing import Any, NamedTuple

from transformers import TrainerCallback

from contrastive.config.cell import Cell
from contrastive.config.experiment import Speed
from contrastive.data.tokens import Tokens


class Clocked(NamedTuple):
    model: Any
    seconds: float  # from the first step's begin to the last one's end
    losses: list[float]


def train(cell: Cell, folder: Path, tokens: Tokens, speed: Speed) -> Clocked:
    """Train a cell with its audit and its log."""
    from contrastive.training.train import CellTraining

    training = CellTraining(cell, folder, tokens, checkpoint_every=10**9, speed=speed)
    steps = training.steps()
    next(steps)
    began = time.time()
    for _ in steps:
        pass
    log = folder / "metrics.jsonl"
    losses = [json.loads(line)["loss"] for line in log.read_text(encoding="utf-8").splitlines()]
    return Clocked(training.model, log.stat().st_mtime - began, losses)


class Clock(TrainerCallback):
    """The times of the begin and the end of each step of a trainer of transformers, in turn."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.times.append(time.perf_counter())

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.times.append(time.perf_counter())

    def seconds(self) -> float:
        """Return the time from the first step's begin to the last one's end."""
        return self.times[-1] - self.times[0]
