"""How the failure of a cell travels from a worker to the flow."""

from typing import Any

from prefect.client.schemas.objects import State, TaskRun

from tasks.engines import Stopped, WorkerLost


class CellFailed(RuntimeError):
    """A cell ended without a result; the message is the reason, in words for people."""

    def __init__(self, kind: str, reason: str):
        super().__init__(reason)
        self.kind = kind


def infrastructure(_task: Any, _run: TaskRun, state: State[Any]) -> bool:
    """Whether to try again: only after what the work itself did not cause."""
    error = state.data
    return isinstance(error, WorkerLost) or (isinstance(error, CellFailed) and error.kind == "infrastructure")


def raise_failure(report: dict[str, Any] | None) -> None:
    if report is not None and report["kind"] == "stopped":
        raise Stopped
    if report is not None:
        raise CellFailed(report["kind"], report["error"])
