"""Leave to work: a file that whoever began the work takes away to have it end at the next step, with a checkpoint.

A file, and no signal, since it reaches every process on every machine that shares the store.
"""

import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

VARIABLE = "ABLATE_PERMIT"
LOOK_AFTER = 0.5  # seconds between two looks at the file

_looked = 0.0


class Stopped(RuntimeError):
    """The work was asked to end; nothing is wrong with it."""

    def __init__(self) -> None:
        super().__init__("stopped; the same command goes on from here")


@contextmanager
def stop_permit(home: Path) -> Iterator[Path]:
    """A permit of its own for what is begun here."""
    path = home / "permits" / uuid.uuid4().hex
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def stop_requested() -> bool:
    """Whether the permit of this process is gone; one that never had any may always go on."""
    global _looked
    path = os.environ.get(VARIABLE)
    if not path or time.monotonic() - _looked < LOOK_AFTER:
        return False
    _looked = time.monotonic()
    try:
        os.close(os.open(path, os.O_RDONLY))  # opened, since on a network file system a look alone may be an old one
    except FileNotFoundError:
        return True
    except OSError:  # the store is away for a moment, which is for the claim to judge
        return False
    return False
