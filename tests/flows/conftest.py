import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

CHECKOUT = Path(__file__).parents[2]
ABLATE = [sys.executable, "-c", "from flows.cli import main; main()"]


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [one for one in processes if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


def gone_within(seconds: float, processes: list[psutil.Process]) -> bool:
    deadline = time.monotonic() + seconds
    while alive(processes) and time.monotonic() < deadline:
        time.sleep(0.1)
    return not alive(processes)


def ablate(settings: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ABLATE, *arguments], cwd=CHECKOUT, env=os.environ | settings, capture_output=True, text=True, timeout=120
    )


@contextmanager
def as_user(number: int) -> Iterator[None]:
    """Sockets that are opened inside belong to another user; only root can."""
    me = os.geteuid()
    os.seteuid(number)
    try:
        yield
    finally:
        os.seteuid(me)
