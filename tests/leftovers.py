"""Nothing that a run of the tests starts outlives it, also where the run is interrupted, killed or ends at a limit.

A guard process waits until the run of the tests has ended, then stops every process that inherited the mark of the run
and removes the run's folders.
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
    """In the first process of a run of the tests; its workers and whatever they start inherit the mark."""
    if MARK not in os.environ:
        os.environ[MARK] = uuid.uuid4().hex
        command = [sys.executable, __file__, str(os.getpid())]
        silent = [(os.POSIX_SPAWN_OPEN, output, os.devnull, os.O_WRONLY, 0) for output in (1, 2)]
        os.posix_spawn(command[0], command, os.environ, file_actions=silent, setsid=True)


def folder(name: str) -> Path:
    """A new folder that goes with the run of the tests, outside pytest's, which only their owner may enter."""
    return Path(tempfile.mkdtemp(prefix=f"{name}-{os.environ[MARK]}-"))


def marked(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:  # PostgreSQL writes over its environment, but names its folder
            if process.pid != os.getpid() and mark in " ".join([process.environ().get(MARK, ""), *process.cmdline()]):
                found.append(process)
        except psutil.Error:  # it has just ended, or is another user's
            continue
    return found


def main(run: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(run).wait()
    mark = os.environ[MARK]
    for process in marked(mark):
        process.terminate()
    psutil.wait_procs(marked(mark), timeout=5)
    while left := marked(mark):  # also what the others started meanwhile
        for process in left:
            process.kill()
        psutil.wait_procs(left, timeout=5)
    for path in Path(tempfile.gettempdir()).glob(f"*-{mark}-*"):
        shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
