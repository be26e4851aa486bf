"""The processes of one home by what they are to it; found by their environment, so that no other home's are met."""

import os
from contextlib import suppress
from pathlib import Path

import psutil

from tests.waiting import left_after

KINDS = {
    "fork server": ("multiprocessing.forkserver",),
    "flow": ("ablate\0run", "prefect.engine"),
    "Prefect worker": ("prefect\0worker\0start",),
    "Prefect server": ("prefect\0server\0start",),
    "MLflow server": ("mlflow\0server",),
}
FORKED = {"ablate-worker": "worker", "ablate-job": "child of a training"}  # by name
MARK = "CHAOS_HOME"  # of what knows no home of its own: the nodes of a cluster
SERVICES = ("Prefect worker", "Prefect server", "MLflow server")


def of(home: Path) -> list[psutil.Process]:
    """Every living process that was started for this home."""
    wanted = {f"ABLATE_HOME={home}".encode(), f"{MARK}={home}".encode()}
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if not wanted.isdisjoint(path.read_bytes().split(b"\0")):
                found.append(psutil.Process(int(path.parent.name)))
        except (OSError, psutil.Error):  # it ended meanwhile, or is another user's
            continue
    return [one for one in found if one.pid != os.getpid()]


def kind(process: psutil.Process) -> str:
    said = command(process)
    with suppress(psutil.Error):
        if process.name() in FORKED:
            return FORKED[process.name()]
    return next((kind for kind, marks in KINDS.items() if any(mark in said for mark in marks)), "")


def command(process: psutil.Process) -> str:
    try:
        return Path(f"/proc/{process.pid}/cmdline").read_text(errors="replace").rstrip("\0")
    except OSError:
        return ""


def of_kind(home: Path, wanted: str) -> list[psutil.Process]:
    return [one for one in of(home) if kind(one) == wanted]


def with_descendants(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return [process]


def gone_within(seconds: float, home: Path) -> list[psutil.Process]:
    """What is left of a home after so long; returns at once when there is nothing."""
    return list(left_after(seconds, lambda: of(home)))
