"""What is asked of the training of a cell. Imports no torch: the flow's process makes it."""

from dataclasses import dataclass, field
from typing import Any

from contrastive.config.cell import Cell
from contrastive.config.evaluation import Evaluation
from contrastive.config.experiment import Speed


@dataclass(frozen=True)
class TrainRequest:
    cell: Cell
    name: str
    checkpoint_every: int
    evaluation: Evaluation = field(default_factory=Evaluation)
    speed: Speed = field(default_factory=Speed)
    together: int = 1  # cells that take turns in one process
    predicted: dict[str, float] | None = None  # seconds and memory_bytes, noted beside what is measured


class JobFailed(RuntimeError):
    """A process of the cell failed, with this report: its own, or what can be told of one that was killed."""

    def __init__(self, report: dict[str, Any]):
        super().__init__(report["error"])
        self.report = report
