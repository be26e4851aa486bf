"""What a command has started ends with it, also when it is killed without a chance to say so.

Without a server of its own a flow starts Prefect's temporary one, which would run for ever after a SIGKILL.
"""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

MARK = "ABLATE_RUN"

# Waits for the end of its input, which comes with the end of the command, and ends whoever inherited the mark.
WATCHER = f"""
import sys
sys.stdin.read()
import psutil
for process in psutil.process_iter():
    try:
        if process.environ().get("{MARK}") == sys.argv[1]:
            process.terminate()
    except psutil.Error:
        pass
"""


@contextmanager
def none() -> Iterator[None]:
    """SIGTERM ends this process as an exception does, and a watcher what it leaves behind after SIGKILL."""
    mark = uuid.uuid4().hex
    signal.signal(signal.SIGTERM, _end)
    command = [sys.executable, "-c", WATCHER, mark]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as watcher:
        os.environ[MARK] = mark
        try:
            yield
        finally:
            watcher.kill()


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)
