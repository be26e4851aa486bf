"""One cell trained as `contrastive.training.train` does it, with its audit and its log, and a clock beside it."""

import json
import time
from pathlib import Path
from typing import Any, NamedTuple

from contrastive.config.cell import Cell
from contrastive.config.experiment import Speed
from contrastive.data.tokens import Tokens


class Clocked(NamedTuple):
    model: Any
    seconds: float  # from the first step's begin to the last one's end
    losses: list[float]


def train(cell: Cell, folder: Path, tokens: Tokens, speed: Speed) -> Clocked:
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
