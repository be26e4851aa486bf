"""Address of the MLflow store, checks of its SQLite file, and masking of credentials in texts.

Imports no MLflow, which takes seconds.
"""

import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path

from contrastive.errors import UserError

TRAINING = "workflowType=machine_learning"  # query of MLflow's pages for training; the default is for language models
DATABASES = ("sqlite:", "postgresql:", "postgresql+", "mysql:", "mysql+", "mssql:", "mssql+")
NAMES = re.compile(
    r"(TOKEN|WEBHOOK|PASS|PASSWORD|PASSWD|PASSPHRASE|SECRET|AUTH_STRING|API_KEY|SECRET_KEY|ACCESS_KEY|PAT|CONNECTION_STRING)$",
    re.IGNORECASE,
)
IN_ADDRESS = re.compile(r"(\w://[^\s:/@]*):\S*@")
TOKEN_AS_USER = re.compile(r"(\w://)[^\s:/@]{20,}@")  # a token instead of a user name
IN_QUERY = re.compile(r"((?:[?&]|\b)(?:\w*password|\w*token|\w*secret|api_?key)=)[^&\s'\"]+", re.IGNORECASE)
SHORTEST = 6  # shorter values occur in texts by chance


class TrackingFailed(UserError):
    """MLflow could not be used; the message has no credentials, which MLflow's errors may quote."""


def tracking_uri(home: Path) -> str:
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{home / 'mlflow.db'}"


def is_database(uri: str) -> bool:
    """Return whether the store is a database written to directly, not a server that also keeps files."""
    return uri.startswith(DATABASES)


def masked(text: str) -> str:
    """Replace credentials, in addresses or from the environment of this process, by `***`."""
    for secret in sorted(_secret_values(), key=len, reverse=True):
        text = text.replace(secret, "***")
    return IN_QUERY.sub(r"\1***", TOKEN_AS_USER.sub(r"\1***@", IN_ADDRESS.sub(r"\1:***@", text)))


def _secret_values() -> set[str]:
    given = {value for name, value in os.environ.items() if NAMES.search(name)}
    parts = given | {value.partition(":")[2] for value in given}  # user:password
    return {part for part in parts if len(part) >= SHORTEST}


def file_of(home: Path) -> Path | None:
    """Return the path of this home's database, or None if MLFLOW_TRACKING_URI names another store."""
    path = home / "mlflow.db"
    return path if tracking_uri(home) == f"sqlite:///{path}" else None


def refuse_damaged(home: Path) -> None:
    """Raise TrackingFailed if this home's database is damaged; MLflow would try to open it for minutes."""
    path = file_of(home)
    if path is not None and os.path.lexists(path) and not is_sound(path):
        raise TrackingFailed(
            f"MLflow's database {path} is damaged: move {path.name}* away; `ablate sync EXPERIMENT` makes a new one "
            "from the run folders. Nights of `ablate nightly` and your own runs are only in the old file"
        )


def is_sound(path: Path) -> bool:
    """Return whether SQLite finds no damage; a file that is locked counts as sound."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as connection:
            return bool(connection.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))
    except sqlite3.OperationalError:
        return path.is_file()
    except sqlite3.DatabaseError:
        return False
