"""The failure of a cell that another process trains, as that one reported it. Imports no torch."""

from typing import Any


class JobFailed(RuntimeError):
    """A process of the cell failed, with this report: its own, or what can be told of one that was killed."""

    def __init__(self, report: dict[str, Any]):
        super().__init__(report["error"])
        self.report = report
