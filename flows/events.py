"""Events that automations of Prefect can act on: a grid has finished, or has ended with cells that failed."""

from pathlib import Path

from prefect.events import Event, emit_event


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
