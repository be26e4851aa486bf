"""Who runs `ablate up` for a home. A lock says it, which the system frees with its holder, whatever ended that."""

import fcntl
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from contrastive.errors import UserError

PATIENCE = 90.0  # seconds that `ablate up` has to stop everything


@contextmanager
def only_one(home: Path) -> Iterator[Callable[[str], None]]:
    """Hold the lock of a home; gives a function that notes where the services are."""
    with _opened(home) as file:
        if not _take_lock(file):
            raise UserError(f"`ablate up` runs already for {home}: {_described(file)}; `ablate down` stops it")

        def note(where: str) -> None:
            file.seek(0)
            file.truncate()
            json.dump({"pid": os.getpid(), "host": socket.gethostname(), "where": where}, file)
            file.flush()

        note("just starting")
        try:
            yield note
        finally:
            file.truncate(0)


def stop_up(home: Path) -> bool:
    """Stop the `ablate up` of a home; false where there is none."""
    with _opened(home) as file:
        if _take_lock(file):
            return False
        holder = _holder(file)
        if holder.get("host") != socket.gethostname():
            raise UserError(f"`ablate up` for {home} runs elsewhere: {_described(file)}; stop it there")
        os.kill(holder["pid"], signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE
        while not _take_lock(file):
            if time.monotonic() > deadline:
                raise UserError(f"`ablate up` has not stopped within {PATIENCE:.0f} s: {_described(file)}")
            time.sleep(0.1)
    return True


def _opened(home: Path) -> IO[str]:
    path = home / "locks" / "up"
    path.parent.mkdir(parents=True, exist_ok=True)
    return open(path, "a+", encoding="utf-8")


def _take_lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(file: IO[str]) -> dict[str, Any]:
    """What the holder has noted; for a moment after it took the lock that is nothing."""
    for _ in range(20):
        file.seek(0)
        if text := file.read():
            return dict(json.loads(text))
        time.sleep(0.1)
    return {}


def _described(file: IO[str]) -> str:
    holder = _holder(file)
    return f"process {holder.get('pid', '?')} on {holder.get('host', '?')}, {holder.get('where', '')}"
