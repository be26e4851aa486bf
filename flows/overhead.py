"""Seconds of a run beside its cells: Prefect's and MLflow's start, references, the report. What the last run of this
home needed, the next one will need too."""

import os
from contextlib import suppress
from pathlib import Path

from contrastive.runs import store

PLACE = Path("cache") / "around.json"


def note(cells: float) -> None:
    """At the end of a run whose cells took so many seconds."""
    age = since_begun()
    if age is not None:
        with suppress(OSError):  # a full disk: it is told elsewhere
            store.write_json(store.home() / PLACE, {"seconds": round(max(0.0, age - cells), 1)})


def last_overhead() -> float | None:
    try:
        return float(store.read_json(store.home() / PLACE)["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def since_begun() -> float | None:
    """Of this process; None on a machine that does not tell."""
    try:
        up = float(Path("/proc/uptime").read_text().split()[0])
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, ValueError):
        return None
    return up - ticks / os.sysconf("SC_CLK_TCK")
