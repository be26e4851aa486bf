"""Waiting for what happens soon, however busy the machine is."""

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
    """The first answer of `look` that counts as true, while the process runs that it waits for."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        in_vain = time.monotonic() > deadline or (while_runs is not None and while_runs.poll() is not None)
        assert not in_vain, otherwise() if callable(otherwise) else otherwise
        time.sleep(0.05)
    return found


def left_after(seconds: float, look: Callable[[], Any]) -> Any:
    """The last answer of `look`, as soon as it is empty."""
    deadline = time.monotonic() + seconds
    while (left := look()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def alive(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those that are still the same processes, and no zombies."""
    return [one for one in processes if one.is_running() and status(one) != psutil.STATUS_ZOMBIE]


def status(process: psutil.Process) -> str:
    try:
        return process.status()
    except psutil.Error:
        return psutil.STATUS_ZOMBIE


def gone_within(seconds: float, processes: Iterable[psutil.Process]) -> bool:
    return not left_after(seconds, lambda: alive(processes))
