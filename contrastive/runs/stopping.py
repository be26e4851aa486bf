"""Stop running work by removing a permit file: its processes then end at the next step, with a checkpoint.

A file, not a signal, because it reaches every process on every machine that shares the store.
"""

import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

VARIABLE = "ABLATE_PERMIT"
CHECK_INTERVAL = 0.5  # seconds between two checks of the file

_last_check = 0.0
_revoked = ""  # the permit that this process has found removed


class Stopped(RuntimeError):
    """The work was stopped on request; this is no failure."""

    kind = "stopped"

    def __init__(self) -> None:
        super().__init__("stopped; run the same command again to continue")


@contextmanager
def work_permit(home: Path) -> Iterator[Path]:
    """Permit work within the block: create a permit file, and remove it at the end, which stops the work."""
    path = home / "permits" / uuid.uuid4().hex
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
        _preempted(path).unlink(missing_ok=True)


def preempt(permit: Path) -> None:
    """Stop work because its machine is wanted for something else, so that it is handed back."""
    _preempted(permit).touch()
    permit.unlink(missing_ok=True)


def is_preempted() -> bool:
    return VARIABLE in os.environ and _preempted(Path(os.environ[VARIABLE])).exists()


def _preempted(permit: Path) -> Path:
    return permit.with_suffix(".preempted")


def stop_requested() -> bool:
    """Return whether the permit of this process was removed. False for a process without a permit.

    Looks at most every CHECK_INTERVAL seconds, and no more once it is gone: all cells of a process stop at once.
    """
    global _last_check, _revoked
    path = os.environ.get(VARIABLE)
    if path and path == _revoked:
        return True
    if not path or time.monotonic() - _last_check < CHECK_INTERVAL:
        return False
    _last_check = time.monotonic()
    try:
        os.close(os.open(path, os.O_RDONLY))  # opened, since a network file system may cache its existence
    except FileNotFoundError:
        _revoked = path
        return True
    except OSError:  # the store is briefly unreachable; the next check will tell
        return False
    return False
