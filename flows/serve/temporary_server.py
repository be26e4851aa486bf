"""Start a Prefect server for one command if none is configured.

Ctrl-C reaches the whole process group of a terminal, so Prefect's own temporary server would end immediately, while
cells still write checkpoints and report to it.
"""

import atexit
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from contrastive.runs.store import check_home, home
from flows.serve import servers
from flows.terminal import tell
from tasks.empty_databases import begin_with_copy

LAST_EVENTS = 60.0  # seconds in which the server must have accepted the last events


class Server(NamedTuple):
    process: subprocess.Popen[bytes]
    log: Path
    api: str
    auth: str


_starting: Server | None = None


def before_import() -> None:
    """Configure Prefect before it is imported, so that it writes into the home and logs little; start the server beside
    the import, which takes as long.

    An existing `~/.prefect` is used, since a profile in it may name a server.
    """
    global _starting
    check_home()
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")
    if not Path("~/.prefect").expanduser().exists():
        os.environ.setdefault("PREFECT_HOME", str(server_folder()))
    if not os.environ.get("PREFECT_API_URL"):
        _starting = start()


def server_folder() -> Path:
    """Return the folder of the temporary server's database and log, next to that of `ablate up`."""
    folder = home() / ".prefect" / "run"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def start() -> Server:
    """Start a server that ends with this command."""
    url, auth = servers.url(servers.any_free_port()), f"ablate:{secrets.token_urlsafe(18)}"
    command = [*servers.program("prefect server start --no-ui"), *servers.listening(url)]
    environment = {"PREFECT_HOME": str(server_folder())} | os.environ | {"PREFECT_SERVER_API_AUTH_STRING": auth}
    if environment["PREFECT_HOME"] == str(server_folder()):
        begin_with_copy("prefect", server_folder() / "prefect.db")
    log = server_folder() / "prefect-server.log"
    process = servers.start_process(command, log, environment)
    atexit.register(servers.stop_process, process)
    return Server(process, log, f"{url}/api", auth)


@contextmanager
def server() -> Iterator[None]:
    """Wait for the server; start one if none is configured. From here on SIGTERM raises SystemExit."""
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, get_current_settings, temporary_settings

    global _starting
    signal.signal(signal.SIGTERM, _exit)
    started, _starting = _starting, None
    if get_current_settings().api.url:  # of the environment, or of one of Prefect's files
        yield
        return
    tell("starting Prefect")
    started = started or start()
    try:
        servers.wait_until_it_answers(f"{started.api}/health", started.process, started.log)
        with temporary_settings({PREFECT_API_URL: started.api, PREFECT_API_AUTH_STRING: started.auth}):
            try:
                yield
            finally:
                send_last_events()
    finally:
        servers.stop_process(started.process)


def send_last_events() -> bool:
    """Wait until the server has accepted Prefect's events; return whether it has all of them."""
    from prefect.events.worker import EventsWorker

    ended = EventsWorker.drain_all(timeout=LAST_EVENTS)
    assert isinstance(ended, tuple), "called inside an event loop"
    return not ended[1]


def _exit(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)
