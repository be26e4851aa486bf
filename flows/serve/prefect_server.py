"""Prefect's server, which on loopback answers its own pages and its own user alone. Run as a program.

`prefect server start` itself lets every page of every site in: it looks at neither origin nor host.
"""

import argparse
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

from flows.serve.passwords import PREFECT, loopback

if TYPE_CHECKING:
    from starlette.types import ASGIApp

ORIGINS = "PREFECT_SERVER_CORS_ALLOWED_ORIGINS"


def command(host: str, port: int, *options: str) -> list[str]:
    return [sys.executable, "-m", "flows.serve.prefect_server", "--host", host, "--port", str(port), *options]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", required=True, type=int)
    parser.add_argument("--while-input", action="store_true", help="end when the standard input does")
    asked = parser.parse_args()
    if asked.while_input:
        threading.Thread(target=end_with_input, daemon=True).start()
    app = guarded(asked.port) if loopback(asked.host) else unguarded()
    import uvicorn

    uvicorn.run(app, host=asked.host, port=asked.port, log_level="warning", proxy_headers=False)


def guarded(port: int) -> "ASGIApp":
    """With a password whoever knows it is let in, and so are the pages that Prefect's own setting names."""
    from flows.serve.server_access import OwnPagesAndUser, own_users

    trusted = os.environ.get(ORIGINS, "").split(",")
    os.environ.setdefault(ORIGINS, ",".join(f"http://{name}:{port}" for name in ("127.0.0.1", "localhost")))
    return OwnPagesAndUser(unguarded(), trusted, None if os.environ.get(PREFECT) else own_users())


def unguarded() -> "ASGIApp":
    from prefect.server.api.server import create_app  # reads the environment when it is imported

    return create_app(final=True)


def end_with_input() -> None:
    """Whoever started this holds the other end of a pipe, which the system closes however that process ends."""
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
