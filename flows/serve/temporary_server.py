"""Start a Prefect server for one command if none is configured.

Ctrl-C reaches the whole process group of a terminal, so Prefect's own temporary server would end immediately, while
cells still write checkpoints and report to it.
"""

import atexit
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO

from contrastive.errors import UserError
from contrastive.runs.store import check_home, free_space_advice, home
from flows.serve import access
from flows.serve.servers import (
    LOOPBACK,
    any_free_port,
    program,
    start_process,
    stop_process,
    url,
    wait_until_it_answers,
)
from flows.terminal import tell
from tasks.empty_databases import begin_with_copy

FULL = ("database or disk is full", "No space left on device")  # messages of SQLite and of the system
# files in which Prefect looks for settings
SETTINGS = ("~/.prefect/profiles.toml", "$PREFECT_HOME/profiles.toml", "prefect.toml", "pyproject.toml", ".env")
LAST_EVENTS = 5.0  # seconds without an accepted event after which the rest is dropped


@dataclass(frozen=True)
class Starting:
    """A server that begins to run."""

    process: subprocess.Popen[bytes]
    log: IO[bytes]
    api: str
    auth: str


_starting: Starting | None = None


def before_import() -> None:
    """Configure Prefect before it is imported, so that it writes into the home and logs little; start the server beside
    the import, unless a server is configured.

    An existing `~/.prefect` is used, since a profile in it may name a server.
    """
    global _starting
    check_home()
    access.forget_stopped_server()
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")
    if not Path("~/.prefect").expanduser().exists():
        server_folder().mkdir(parents=True, exist_ok=True)
        os.environ.setdefault("PREFECT_HOME", str(server_folder()))
    if not os.environ.get("PREFECT_API_URL") and not any(map(names_a_server, SETTINGS)):
        _starting = start()
        atexit.register(stop_unused)


def stop_unused() -> None:
    """Stop the server of a command that ends before it uses it."""
    if _starting is not None:
        stop_process(_starting.process)
        _starting.log.close()


def names_a_server(path: str) -> bool:
    """Return whether a file of settings may name a server; if it does not in fact, the server only starts later."""
    try:
        text = Path(os.path.expandvars(path)).expanduser().read_text(errors="replace")
    except OSError:
        return False
    return re.search(r"api[_.]?url|^\s*\[.*\bapi\b", text, re.IGNORECASE | re.MULTILINE) is not None


def server_folder() -> Path:
    """Return the folder of the temporary server's database, next to that of `ablate up`."""
    return home() / ".prefect" / "run"


def start() -> Starting:
    port, auth = any_free_port(), f"{access.USER}:{secrets.token_urlsafe(18)}"
    command = [program("prefect"), "server", "start", "--host", LOOPBACK, "--port", str(port), "--no-ui"]
    server_folder().mkdir(parents=True, exist_ok=True)
    environment = {"PREFECT_HOME": str(server_folder())} | os.environ | {"PREFECT_SERVER_API_AUTH_STRING": auth}
    if environment["PREFECT_HOME"] == str(server_folder()):
        begin_with_copy("prefect", server_folder() / "prefect.db")
    log = tempfile.NamedTemporaryFile(prefix="prefect-", suffix=".log")  # noqa: SIM115 (closed by `server`)
    return Starting(start_process(command, Path(log.name), environment), log, f"{url(LOOPBACK, port)}/api", auth)


@contextmanager
def server() -> Iterator[None]:
    """Wait for the server; start one if none is configured. From here on SIGTERM raises SystemExit."""
    from prefect.exceptions import PrefectHTTPStatusError
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, get_current_settings, temporary_settings

    global _starting
    signal.signal(signal.SIGTERM, _exit)
    begun, _starting = _starting, None
    if get_current_settings().api.url:  # of a file that `before_import` does not know
        if begun is not None:
            stop_process(begun.process)
            begun.log.close()
        yield
        return
    tell("starting Prefect")
    own = begun or start()
    log = Path(own.log.name)
    try:
        try:
            wait_until_it_answers(f"{own.api}/health", own.process, log)
        except UserError as error:
            refuse_if_full(log)
            raise UserError(f"Prefect's server did not start: {error}: {log.read_text()[-2000:]}") from None
        with temporary_settings({PREFECT_API_URL: own.api, PREFECT_API_AUTH_STRING: own.auth}):
            try:
                yield
            except PrefectHTTPStatusError:
                refuse_if_full(log)
                raise
            finally:
                send_last_events()
    finally:
        stop_process(own.process)
        own.log.close()


def refuse_if_full(log: Path) -> None:
    """Raise UserError if the server's log says that the disk is full."""
    said = log.read_text(encoding="utf-8", errors="replace")
    if any(words in said for words in FULL):
        folder = Path(os.environ.get("PREFECT_HOME", server_folder()))
        raise UserError(f"the disk is full: Prefect's server could not write in {folder}; {free_space_advice(folder)}")


def send_last_events() -> bool:
    """Wait while the server accepts events; return whether it accepted all.

    The rest is dropped: Prefect would retry each for seconds.
    """
    from prefect.events.worker import EventsWorker

    waiting = EventsWorker.instance()._queue
    least, since = waiting.qsize(), time.monotonic()
    while least and time.monotonic() - since < LAST_EVENTS:
        time.sleep(0.05)
        if (left := waiting.qsize()) < least:
            least, since = left, time.monotonic()
    with waiting.mutex:
        waiting.queue.clear()
    return least == 0


def _exit(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)
