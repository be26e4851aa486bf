"""A Prefect server for one command, where there is none.

A terminal sends Ctrl-C to every process of its group. Prefect's own temporary server would end at once by it, while
cells still write their checkpoints and report to it.
"""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from contrastive.errors import UserError
from contrastive.runs.store import check_home, home, what_is_free
from flows.serve import prefect_server, watcher
from flows.serve.ports import LOOPBACK, answers, any_free_port, url
from flows.terminal import tell

PATIENCE = 120.0  # seconds until it must answer; the first start makes a database
FULL = ("database or disk is full", "No space left on device")  # as SQLite and the system say it


def before_import() -> None:
    """What Prefect is told before it is imported, which makes its folder: to write into the home, and to be quiet.

    A `~/.prefect` of the user's is read all the same, since a profile in it may name a server.
    """
    check_home()
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")
    if not Path("~/.prefect").expanduser().exists():
        server_folder().mkdir(parents=True, exist_ok=True)
        os.environ.setdefault("PREFECT_HOME", str(server_folder()))


def server_folder() -> Path:
    """Of the temporary server's database, beside that of `ablate up`."""
    return home() / ".prefect" / "run"


@contextmanager
def server() -> Iterator[None]:
    """Where a server is configured already, that one is used."""
    from prefect.exceptions import PrefectHTTPStatusError
    from prefect.settings import PREFECT_API_URL, get_current_settings, temporary_settings

    from flows.serve import event_queue

    if get_current_settings().api.url:
        yield
        return
    tell("starting Prefect")
    port = any_free_port()
    command = prefect_server.command(LOOPBACK, port, "--while-input")
    server_folder().mkdir(parents=True, exist_ok=True)
    environment = {"PREFECT_HOME": str(server_folder())} | os.environ | {"PREFECT_SERVER_UI_ENABLED": "false"}
    api = f"{url(LOOPBACK, port)}/api"
    with tempfile.NamedTemporaryFile(prefix="prefect-", suffix=".log") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment, start_new_session=True
        )
        try:
            wait_for_server(f"{api}/health", process, Path(log.name))
            with temporary_settings({PREFECT_API_URL: api}):
                try:
                    yield
                except PrefectHTTPStatusError:
                    refuse_if_full(Path(log.name).read_text(encoding="utf-8", errors="replace"))
                    raise
                finally:
                    event_queue.send_rest()
        finally:
            for number in (signal.SIGTERM, signal.SIGKILL):
                watcher.send_signal([], [process.pid], number)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(10)


def refuse_if_full(said: str) -> None:
    """Say so where the server's log says that its disk is full."""
    if any(words in said for words in FULL):
        folder = Path(os.environ.get("PREFECT_HOME", server_folder()))
        raise UserError(f"the disk is full: Prefect's server could not write in {folder}; {what_is_free(folder)}")


def wait_for_server(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not answers(url):
        if process.poll() is not None or time.monotonic() > deadline:
            said = log.read_text(encoding="utf-8", errors="replace").strip()[-2000:]
            refuse_if_full(said)
            raise UserError(f"Prefect's server did not begin to answer at {url}: {said}")
        time.sleep(0.1)
