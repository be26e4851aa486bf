"""Start a Prefect server for one command if none is configured.

Ctrl-C reaches the whole process group of a terminal, so Prefect's own temporary server would end immediately, while
cells still write checkpoints and report to it.
"""

import os
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

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

FULL = ("database or disk is full", "No space left on device")  # messages of SQLite and of the system
LAST_EVENTS = 5.0  # seconds without an accepted event after which the rest is dropped


def before_import() -> None:
    """Configure Prefect before it is imported, so that it writes into the home and logs little.

    An existing `~/.prefect` is used, since a profile in it may name a server.
    """
    check_home()
    access.forget_stopped_server()
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")
    if not Path("~/.prefect").expanduser().exists():
        server_folder().mkdir(parents=True, exist_ok=True)
        os.environ.setdefault("PREFECT_HOME", str(server_folder()))


def server_folder() -> Path:
    """Return the folder of the temporary server's database, next to that of `ablate up`."""
    return home() / ".prefect" / "run"


@contextmanager
def server() -> Iterator[None]:
    """Start a server unless one is configured. From here on SIGTERM raises SystemExit."""
    from prefect.exceptions import PrefectHTTPStatusError
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, get_current_settings, temporary_settings

    signal.signal(signal.SIGTERM, _exit)
    if get_current_settings().api.url:
        yield
        return
    tell("starting Prefect")
    port, auth = any_free_port(), f"{access.USER}:{secrets.token_urlsafe(18)}"
    command = [program("prefect"), "server", "start", "--host", LOOPBACK, "--port", str(port), "--no-ui"]
    server_folder().mkdir(parents=True, exist_ok=True)
    environment = {"PREFECT_HOME": str(server_folder())} | os.environ | {"PREFECT_SERVER_API_AUTH_STRING": auth}
    api = f"{url(LOOPBACK, port)}/api"
    with tempfile.NamedTemporaryFile(prefix="prefect-", suffix=".log") as file:
        log = Path(file.name)
        process = start_process(command, log, environment)
        try:
            try:
                wait_until_it_answers(f"{api}/health", process, log)
            except UserError as error:
                refuse_if_full(log)
                raise UserError(f"Prefect's server did not start: {error}: {log.read_text()[-2000:]}") from None
            with temporary_settings({PREFECT_API_URL: api, PREFECT_API_AUTH_STRING: auth}):
                try:
                    yield
                except PrefectHTTPStatusError:
                    refuse_if_full(log)
                    raise
                finally:
                    send_last_events()
        finally:
            stop_process(process)


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
