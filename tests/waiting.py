"""Wait for a condition or for the end of processes, with time limits for busy machines."""

import subprocess
import time
from collections.abc import Callable, Iterable
from typing import Any

import psutil


def soon(
    look: Callable[[], Any],
    seconds: float = 240,
    otherwise: object = "waited in vain",
    while_runs: subprocess.Popen[Any] | None = None,
) -> Any:
    """Return the first true answer of `look`; fail with `otherwise` after `seconds`, or once `while_runs` has ended."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        in_vain = time.monotonic() > deadline or (while_runs is not None and while_runs.poll() is not None)
        assert not in_vain, otherwise() if callable(otherwise) else otherwise
        time.sleep(0.05)
    return found


def left_after(seconds: float, look: Callable[[], Any]) -> Any:
    """Return the last answer of `look`: the first empty one, or what is left after `seconds`."""
    deadline = time.monotonic() + seconds
    while (rest := look()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return rest


def alive(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Return the processes that still run and are no zombies."""
    return [process for process in processes if process.is_running() and status(process) != psutil.STATUS_ZOMBIE]


def status(process: psutil.Process) -> str:
    try:
        return process.status()
    except psutil.Error:
        return psutil.STATUS_ZOMBIE


def gone_within(seconds: float, processes: Iterable[psutil.Process]) -> bool:
    return not left_after(seconds, lambda: alive(processes))
