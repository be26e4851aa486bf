"""The time of a run outside its cells, for startup and report, which predicts that of the next run of this home."""

import time
from contextlib import suppress
from pathlib import Path

import psutil

from contrastive.runs import store
from contrastive.runs.store import home

AROUND = Path("cache") / "around.json"


def note_overhead(cells: float) -> None:
    """Store the seconds that this run spent outside its cells, to predict the next run of this home."""
    age = time.time() - psutil.Process().create_time()
    with suppress(OSError):  # a full disk is reported elsewhere
        store.write_json(home() / AROUND, {"seconds": round(max(0.0, age - cells), 1)})


def last_overhead() -> float | None:
    try:
        return float(store.read_json(home() / AROUND)["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
