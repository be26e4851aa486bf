"""The processes of one home, which are found by their environment, and what they are to it."""

import os
from contextlib import suppress
from pathlib import Path

import psutil

from tests.waiting import left_after

FORKED = {"ablate-worker": "worker", "ablate-job": "child of a training"}  # by name
STARTED = {
    "command": ("ablate\0worker",),
    "flow": ("ablate\0run", "prefect.engine"),
    "Prefect worker": ("prefect\0worker\0start",),
}


def of(home: Path) -> list[psutil.Process]:
    """Every living process that was started for this home."""
    wanted = f"ABLATE_HOME={home}".encode()
    processes = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError, psutil.Error):  # it ended meanwhile, or is another user's
            if wanted in path.read_bytes().split(b"\0"):
                processes.append(psutil.Process(int(path.parent.name)))
    return [one for one in processes if one.pid != os.getpid()]


def kind(process: psutil.Process) -> str:
    with suppress(OSError, psutil.Error):
        if process.name() in FORKED:
            return FORKED[process.name()]
        command = "\0".join(process.cmdline())
        return next((kind for kind, marks in STARTED.items() if any(mark in command for mark in marks)), "")
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
