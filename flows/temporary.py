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
from flows import watcher
from flows.ports import answers, any_free_port
from flows.supervise import program

PATIENCE = 120.0  # seconds until it must answer; the first start makes a database


@contextmanager
def server() -> Iterator[None]:
    """Where a server is configured already, that one is used."""
    from prefect.settings import PREFECT_API_URL, get_current_settings, temporary_settings

    from flows import backlog

    if get_current_settings().api.url:
        yield
        return
    port = any_free_port()
    command = [program("prefect"), "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    environment = os.environ | {"PREFECT_SERVER_UI_ENABLED": "false"}
    with tempfile.NamedTemporaryFile(prefix="prefect-", suffix=".log") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
        )
        try:
            wait_for(f"http://127.0.0.1:{port}/api/health", process, Path(log.name))
            with temporary_settings({PREFECT_API_URL: f"http://127.0.0.1:{port}/api"}):
                try:
                    yield
                finally:
                    backlog.close()
        finally:
            for number in (signal.SIGTERM, signal.SIGKILL):
                watcher.end([], [process.pid], number)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(10)


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not answers(url):
        if process.poll() is not None or time.monotonic() > deadline:
            said = log.read_text(encoding="utf-8", errors="replace").strip()[-2000:]
            raise UserError(f"Prefect's server did not begin to answer at {url}: {said}")
        time.sleep(0.1)
