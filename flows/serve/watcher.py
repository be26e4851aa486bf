"""Stops what `ablate up` or `ablate run` has started when that is killed without a chance to do so itself.

Run as a program, told process groups on its input, a line each time the set changes. Its input ends with the command.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

VARIABLE = "ABLATE_SERVICE"  # HOME//SERVICE, or run//ID, in the environment of every process that one starts
GRACE = 8.0


def service_mark(home: Path, service: str = "") -> str:
    return f"{home}//{service}"


def marked_processes(beginning: str) -> list[int]:
    """Processes of a service, also those in sessions of their own, as the flow runs of a Prefect worker are.

    Read from /proc; where there is none, process groups have to do.
    """
    entry_begins, pids = f"{VARIABLE}={beginning}".encode(), []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # it has just ended, or is another user's
            if any(entry.startswith(entry_begins) for entry in environ.read_bytes().split(b"\0")):
                pids.append(int(environ.parent.name))
    return pids


def send_signal(pids: Sequence[int], groups: Sequence[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS refuses for a group of zombies
            os.killpg(group, number)


def stop_marked(beginning: str, groups: Sequence[int] = ()) -> bool:
    """Ask them to end, and end what has not after a while; whether there was anything."""
    pids = marked_processes(beginning)
    send_signal(pids, groups, signal.SIGTERM)
    deadline = time.monotonic() + GRACE
    while marked_processes(beginning) and time.monotonic() < deadline:
        time.sleep(0.2)
    send_signal(marked_processes(beginning), groups, signal.SIGKILL)
    return bool(pids)


def main(beginning: str) -> None:
    groups: list[int] = []
    for line in sys.stdin:
        groups = [int(word) for word in line.split()]
    stop_marked(beginning, groups)
    # no run of MLflow may say RUNNING of what has just ended; in a process of its own, for this one is to be gone soon
    no = subprocess.DEVNULL
    subprocess.Popen([sys.executable, "-m", "tasks.settle"], stdin=no, stdout=no, stderr=no, start_new_session=True)


if __name__ == "__main__":
    main(sys.argv[1])
