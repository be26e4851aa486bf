"""What `ablate run` has started ends with it, also when it is killed without a chance to say so."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from flows.serve import watcher


@contextmanager
def none() -> Iterator[None]:
    """SIGTERM ends this process as an exception does, and a watcher what it leaves behind after SIGKILL."""
    mark = watcher.service_mark(Path("run"), uuid.uuid4().hex)
    signal.signal(signal.SIGTERM, _end)
    command = [sys.executable, str(Path(watcher.__file__)), mark]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as watching:
        os.environ[watcher.VARIABLE] = mark  # of whatever starts from now on
        try:
            yield
        finally:
            watching.kill()


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)
