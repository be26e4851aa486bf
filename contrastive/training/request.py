"""TrainRequest: everything needed to train one cell. Imports no torch, because the flow's process builds it."""

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
    predicted: dict[str, float] | None = None  # seconds and memory_bytes, stored beside the measured ones


class JobFailed(RuntimeError):
    """A process of the cell failed. `report` is its failure report, or one derived from its exit code."""

    def __init__(self, report: dict[str, Any]):
        super().__init__(report["error"])
        self.report = report
