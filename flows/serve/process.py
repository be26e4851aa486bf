"""Start a server as a process that ends with its parent, and wait until it answers."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from contrastive.errors import UserError
from contrastive.runs import store
from flows.serve.ports import answers

CHECKOUT = Path(__file__).parents[2]
START = 120.0  # seconds in which a server must answer; the first start makes a database
STOP = 20.0  # seconds in which a process must end after SIGTERM
SET_PARENT_DEATH_SIGNAL = 1  # of Linux's prctl
LIBC = ctypes.CDLL(None)


def start_process(command: list[str], log: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a program in the checkout, and in a session of its own, which a terminal's Ctrl-C does not reach."""
    with open(log, "ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=CHECKOUT,
            env=environment,
            start_new_session=True,
            preexec_fn=prepare_child,
        )


def prepare_child() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):  # Prefect's worker ignores SIGTERM where SIGINT is ignored
        signal.signal(number, signal.SIG_DFL)
    end_with_parent()


def end_with_parent() -> None:
    """Have Linux send SIGTERM to this process when its parent dies, whatever ends that. Not inherited by children."""
    if sys.platform == "linux":
        LIBC.prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)


def begin_flow() -> None:
    """Check the home, and have a flow run of `ablate up` end when its worker dies: it has a session of its own."""
    store.check_home()
    if "ABLATE_UP" in os.environ:
        end_with_parent()
        if os.getppid() == 1:
            raise SystemExit("the worker of this flow run has died")


def wait_until_it_answers(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START
    while not answers(url):
        if (code := process.poll()) is not None:
            raise UserError(f"{log.stem} ended with code {code} before it answered; its log is {log}")
        if time.monotonic() > deadline:
            raise UserError(f"{log.stem} did not answer at {url} for {START:.0f} s; its log is {log}")
        time.sleep(0.2)


def stop_process(process: subprocess.Popen[bytes]) -> None:
    """Ask its group to end, and kill what has not ended after a while."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):  # macOS refuses for a group of zombies
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP)


def program(name: str) -> str:
    return str(Path(sys.executable).parent / name)  # of this environment, active or not
