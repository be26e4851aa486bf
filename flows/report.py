"""The flow `report`, the preliminary reports while a grid is at work, and the event at its end."""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, cast

from prefect import flow
from prefect.artifacts import create_markdown_artifact
from prefect.events import Event, emit_event
from prefect.runtime import flow_run
from prefect.states import Completed

from contrastive.grid import load
from contrastive.grid.plan import Plan, recorded_grid
from flows.terminal import tell
from tasks.render import Rendered, build_preliminary, render


def experiment_of_run() -> str:
    """The name of a flow run: that of its experiment file."""
    return Path(flow_run.parameters["experiment_file"]).stem


def told(experiment: str, report: Rendered) -> None:
    """Say what was found, and show the report on Prefect's page."""
    tell(report.finding)
    create_markdown_artifact(key=f"report-{experiment}", markdown=report.markdown())


def ending(report: Rendered) -> str:
    """What a flow ends with: the path of the report, and as its state what was found."""
    return cast(str, Completed(message=report.finding, data=str(report.path)))


@flow(name="report", flow_run_name=experiment_of_run, persist_result=False)
def report(experiment_file: str) -> str:
    """Write the report of an experiment again.

    Args:
        experiment_file: path of the experiment file, for example configs/quickstart.yaml
    """
    name = load.load_experiment(Path(experiment_file)).experiment.name
    rendered = render(name)
    told(name, rendered)
    return ending(rendered)


def grid_ended(name: str, total: int, failed: int, report: Path | None) -> Event | None:
    """Emit `ablate.grid.finished`, or `ablate.grid.failed` where cells failed or there is no report.

    Prefect adds the flow run that it is called in.

    Called where nobody listens, without a server, it does nothing and gives None.
    """
    return emit_event(
        "ablate.grid.failed" if failed or report is None else "ablate.grid.finished",
        resource={"prefect.resource.id": f"ablate.grid.{name}", "prefect.resource.name": name},
        payload={"cells": total, "failed": failed, "report": str(report or "")},
    )


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
            build_preliminary(recorded_grid(plan, self.references), ended, total)
        except Exception as error:  # whatever a tracking server may raise: the report at the end is what counts
            logger.info("no preliminary report: %s", error)
        now = time.monotonic()
        self.next = now + max(EVERY, SHARE * (now - began))
