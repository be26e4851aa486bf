"""One `ablate up` a home: it holds a lock, which the system frees when it ends, whatever ended it."""

import fcntl
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from contrastive.errors import UserError

PATIENCE = 90.0  # seconds in which `ablate up` must stop everything


@contextmanager
def only_one(home: Path) -> Iterator[None]:
    with _open(home) as file:
        if not _take(file):
            raise UserError(f"`ablate up` runs already for {home} ({file.read()}); `ablate down` stops it")
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        yield


def is_up(home: Path) -> bool:
    if not (home / "locks" / "up").exists():
        return False
    with _open(home) as file:
        return not _take(file)


def stop_up(home: Path) -> bool:
    """Stop the `ablate up` of a home; false where there is none."""
    with _open(home) as file:
        if _take(file):
            return False
        holder = file.read()
        if len(holder.split()) != 4:
            raise UserError(f"`ablate up` for {home} is just starting; try again in a moment")
        _, pid, _, host = holder.split()
        if host != socket.gethostname():
            raise UserError(f"`ablate up` for {home} runs elsewhere ({holder}); stop it there")
        os.kill(int(pid), signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE
        while not _take(file):
            if time.monotonic() > deadline:
                raise UserError(f"`ablate up` ({holder}) has not stopped within {PATIENCE:.0f} s")
            time.sleep(0.1)
    return True


def _open(home: Path) -> IO[str]:
    path = home / "locks" / "up"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path.open("r+", encoding="utf-8")


def _take(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
