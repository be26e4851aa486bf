"""Start servers as processes that end with their parent; find ports; let one `ablate up` run for a home."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from contrastive.errors import UserError
from contrastive.runs import store

CHECKOUT = Path(__file__).parents[2]  # or the folder of the installed packages
START = 120.0  # seconds in which a server must answer; the first start makes a database
STOP = 20.0  # seconds in which a process must end after SIGTERM
STOP_ALL = 90.0  # seconds in which `ablate up` must stop everything
LOOPBACK = "127.0.0.1"
PORTS = {"prefect": ("ABLATE_PREFECT_PORT", "4200"), "mlflow": ("ABLATE_MLFLOW_PORT", "5000")}
SET_PARENT_DEATH_SIGNAL = 1  # option of Linux's prctl
LIBC = ctypes.CDLL(None)


def start_process(command: list[str], log: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a program in the folder of the code, in its own session, which a terminal's Ctrl-C does not reach."""
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
    """Have Linux send SIGTERM to this process when its parent dies. Not inherited by children."""
    if sys.platform == "linux":
        LIBC.prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)


def begin_flow() -> None:
    """Check the home; under `ablate up`, end this process when its worker dies.

    A flow run has its own session, so signals to the worker do not reach it.
    """
    store.check_home()
    if "ABLATE_UP" in os.environ:
        end_with_parent()
        if os.getppid() == 1:
            raise SystemExit("the worker of this flow run has died")


def wait_until_it_answers(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START
    while not answers(url):
        if (code := process.poll()) is not None:
            raise UserError(f"{log.stem} ended with code {code} before it was ready; its log is {log}")
        if time.monotonic() > deadline:
            raise UserError(f"{log.stem} did not answer at {url} for {START:.0f} s; its log is {log}")
        time.sleep(0.2)


def stop_process(process: subprocess.Popen[bytes]) -> None:
    """Send SIGTERM to the process group, and SIGKILL after STOP seconds."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):  # macOS refuses for a group of zombies
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP)


def program(line: str) -> list[str]:
    """Return a command whose program is that of this environment, activated or not."""
    return [sys.executable, "-m", *line.split()]


def free_port(service: str) -> int:
    """Return the configured port of a service; raise UserError if it is in use."""
    variable, usual = PORTS[service]
    number = os.environ.get(variable) or usual
    if not number.isdecimal() or not 0 < int(number) < 65536:
        raise UserError(f"{variable} is `{number}`; set it to a port between 1 and 65535")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, int(number)))
        except OSError:
            another = f"{variable}={int(number) + 1} ablate up"
            raise UserError(f"port {number} is in use, perhaps by another home: choose another, {another}") from None
    return int(number)


def any_free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def url(number: int) -> str:
    return f"http://{LOOPBACK}:{number}"


def listening(url: str) -> list[str]:
    return ["--host", LOOPBACK, "--port", url.rpartition(":")[2]]


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return response.status == 200
    except OSError:
        return False


@contextmanager
def only_one(home: Path) -> Iterator[None]:
    """Hold the home's lock of `ablate up`, with the id of this process in the file `locks/up.process`."""
    with store.locked(home / "locks" / "up", timeout=0) as is_free:
        if not is_free:
            raise UserError(f"`ablate up` is already running for {home}; `ablate down` stops it")
        (home / "locks" / "up.process").write_text(f"{os.getpid()} {socket.gethostname()}", encoding="utf-8")
        yield


def stop_up(home: Path) -> bool:
    """Stop the `ablate up` of a home; return False if there is none."""
    with store.locked(home / "locks" / "up", timeout=0) as is_free:
        if is_free:
            return False
    pid, host = (home / "locks" / "up.process").read_text(encoding="utf-8").split()
    if host != socket.gethostname():
        raise UserError(f"`ablate up` for {home} runs on {host}; stop it there")
    os.kill(int(pid), signal.SIGTERM)
    with store.locked(home / "locks" / "up", timeout=STOP_ALL) as has_stopped:
        if not has_stopped:
            raise UserError(f"`ablate up` (process {pid}) has not stopped within {STOP_ALL:.0f} s")
    return True
