import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
ABLATE = [sys.executable, "-c", "from flows.cli import main; main()"]


def ablate(settings: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ABLATE, *arguments], cwd=CHECKOUT, env=os.environ | settings, capture_output=True, text=True, timeout=120
    )


@contextmanager
def as_user(number: int) -> Iterator[None]:
    """Sockets that are opened inside belong to another user; only root can."""
    me = os.geteuid()
    os.seteuid(number)
    try:
        yield
    finally:
        os.seteuid(me)
