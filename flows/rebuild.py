"""The flow `report`, preliminary reports while a grid runs, and the Prefect event at its end."""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self, cast

from prefect import flow
from prefect.artifacts import create_markdown_artifact
from prefect.events import emit_event
from prefect.runtime import flow_run
from prefect.states import Completed

from contrastive.evaluation.reference import known_references
from contrastive.grid.plan import Plan, recorded_grid
from flows.terminal import tell
from flows.upkeep import apply_file
from tasks.report import BuiltReport, build_preliminary, report_task


def experiment_of_run() -> str:
    """Name a flow run after its experiment file."""
    return Path(flow_run.parameters["experiment_file"]).stem


def show_report(experiment: str, report: BuiltReport) -> str:
    """Print the finding, and show the report in the Prefect UI.

    Returns the state at the end of the flow: its message is the finding, its data the path of the report.
    """
    tell(report.finding)
    create_markdown_artifact(key=f"report-{experiment}", markdown=report.markdown())
    return cast(str, Completed(message=report.finding, data=str(report.path)))


@flow(name="report", flow_run_name=experiment_of_run, persist_result=False)
def report(experiment_file: str) -> str:
    """Rebuild the report of an experiment.

    Args:
        experiment_file: path of the experiment file, for example configs/quickstart.yaml
    """
    name = apply_file(Path(experiment_file))
    return show_report(name, report_task(name))


def grid_ended(name: str, total: int, failed: int, report: Path | None) -> None:
    """Emit `ablate.grid.finished`, or `ablate.grid.failed` if cells failed or there is no report.

    Prefect adds the current flow run.
    """
    emit_event(
        "ablate.grid.failed" if failed or report is None else "ablate.grid.finished",
        resource={"prefect.resource.id": f"ablate.grid.{name}", "prefect.resource.name": name},
        payload={"cells": total, "failed": failed, "report": str(report or "")},
    )


EVERY = 20.0  # minimum seconds between two preliminary reports
SHARE = 20  # the pause is at least this many times the duration of the last one

logger = logging.getLogger(__name__)


class Preliminary:
    """Write preliminary reports, one at a time, in a thread."""

    def __init__(self) -> None:
        self.next = 0.0
        self.thread: threading.Thread | None = None

    def cell_ended(self, current_plan: Callable[[], Plan], ended: int, total: int) -> None:
        """Start a preliminary report unless one is being written, one was written just now, or all cells have ended."""
        busy = self.thread is not None and self.thread.is_alive()
        if not busy and ended < total and time.monotonic() >= self.next:
            self.thread = threading.Thread(target=self._write, args=(current_plan(), ended, total), daemon=True)
            self.thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for the report being written; the final report replaces it."""
        if self.thread is not None:
            self.thread.join()

    def _write(self, plan: Plan, ended: int, total: int) -> None:
        began = time.monotonic()
        try:
            build_preliminary(recorded_grid(plan, known_references(plan)), ended, total)
        except Exception as error:  # any error of a tracking server; only the final report matters
            logger.info("no preliminary report: %s", error)
        now = time.monotonic()
        self.next = now + max(EVERY, SHARE * (now - began))
