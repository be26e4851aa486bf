"""Empty databases of Prefect and MLflow, with which new homes begin: the migrations of both take ten seconds.

`python -m tasks.empty_databases` (a part of `make install`) makes them once for an installation. Without them each
library makes its own database.
"""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from importlib.metadata import version
from pathlib import Path

FOLDER = Path(sys.prefix) / "share" / "ablate"
LIBRARIES = ("mlflow", "prefect")


def empty_database(library: str) -> Path:
    return FOLDER / f"{library}-{version(library)}.db"


def begin_with_copy(library: str, database: Path) -> None:
    """Copy the empty database of a library, unless there is one already or none was made at the installation."""
    empty = empty_database(library)
    if os.path.lexists(database) or not empty.exists():
        return
    with suppress(OSError, sqlite3.Error), tempfile.TemporaryDirectory(dir=database.parent) as folder:
        copy = shutil.copyfile(empty, Path(folder) / database.name)
        if library == "mlflow":  # its experiment "Default" names the folder in which the database was made
            with closing(sqlite3.connect(copy)) as connection, connection:
                where = (database.parent / "mlartifacts" / "0").as_uri()
                connection.execute("UPDATE experiments SET artifact_location = ?", [where])
        os.link(copy, database)  # whole or not at all; fails if another process was faster


def make(library: str, database: Path) -> None:
    """Make the empty database of a library, by the library itself."""
    database.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / f"{library}.db"
        if library == "prefect":
            command = [str(Path(sys.executable).parent / "prefect"), "server", "database", "upgrade", "-y"]
            subprocess.run(command, env=os.environ | {"PREFECT_HOME": folder}, check=True, capture_output=True)
        else:
            from mlflow import MlflowClient

            MlflowClient(tracking_uri=f"sqlite:///{made}").search_experiments()
        database.unlink(missing_ok=True)
        with closing(sqlite3.connect(made)) as connection:  # whole, although the library may have it open
            connection.execute("VACUUM INTO ?", [str(database)])


if __name__ == "__main__":
    with ThreadPoolExecutor() as both:
        list(both.map(make, LIBRARIES, map(empty_database, LIBRARIES)))
