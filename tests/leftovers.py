"""Clean up after a test run, even if it is interrupted or killed: end its processes and remove its folders.

A watching process waits for the end of the test run, then ends every process that inherited the run's mark
(an environment variable) and removes the run's folders.
"""

import contextlib
import os
import shutil
import sys
import tempfile
import uuid
from pathlib import Path

import psutil

MARK = "ABLATE_TEST_RUN"


def end_with_this_process() -> None:
    """Start the watching process in the first process of a test run; all that it starts inherits the mark."""
    if MARK not in os.environ:
        os.environ[MARK] = uuid.uuid4().hex
        command = [sys.executable, __file__, str(os.getpid())]
        silent = [(os.POSIX_SPAWN_OPEN, output, os.devnull, os.O_WRONLY, 0) for output in (1, 2)]
        os.posix_spawn(command[0], command, os.environ, file_actions=silent, setsid=True)


def folder(name: str) -> Path:
    """Make a folder that is removed after the test run; other users may enter its parent, unlike pytest's folders."""
    return Path(tempfile.mkdtemp(prefix=f"{name}-{os.environ[MARK]}-"))


def marked(mark: str) -> list[psutil.Process]:
    """Return all other processes with this mark."""
    found = []
    for process in psutil.process_iter():
        try:  # PostgreSQL overwrites its environment, but the mark is in the folder on its command line
            if process.pid != os.getpid() and mark in " ".join([process.environ().get(MARK, ""), *process.cmdline()]):
                found.append(process)
        except psutil.Error:  # the process has just ended, or belongs to another user
            continue
    return found


def main(run: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(run).wait()
    mark = os.environ[MARK]
    for process in marked(mark):
        process.terminate()
    psutil.wait_procs(marked(mark), timeout=5)
    while remaining := marked(mark):  # also processes that were started meanwhile
        for process in remaining:
            process.kill()
        psutil.wait_procs(remaining, timeout=5)
    for path in Path(tempfile.gettempdir()).glob(f"*-{mark}-*"):
        shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
