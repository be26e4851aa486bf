"""Which MLflow store is meant, for `ablate up` too, which does without the seconds of importing MLflow."""

import os
import re
from pathlib import Path

TRAINING = "workflowType=machine_learning"  # in an address of MLflow's pages, which else are those of language models
DATABASES = ("sqlite:", "postgresql:", "postgresql+", "mysql:", "mysql+", "mssql:", "mssql+")


def tracking_uri(home: Path) -> str:
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{home / 'mlflow.db'}"


def is_database(uri: str) -> bool:
    """Whether the store is a database that is written to directly, and no server that keeps files, too."""
    return uri.startswith(DATABASES)


NAMES = re.compile(
    r"(TOKEN|WEBHOOK|PASS|PASSWORD|PASSWD|PASSPHRASE|SECRET|AUTH_STRING|API_KEY|SECRET_KEY|ACCESS_KEY|PAT|CONNECTION_STRING)$",
    re.IGNORECASE,
)
IN_ADDRESS = re.compile(r"(\w://[^\s:/@]*):\S*@")
ALONE = re.compile(r"(\w://)[^\s:/@]{20,}@")  # a token in the place of the user
IN_QUERY = re.compile(r"((?:[?&]|\b)(?:\w*password|\w*token|\w*secret|api_?key)=)[^&\s'\"]+", re.IGNORECASE)
SHORTEST = 6  # shorter values stand in texts by chance


def masked(text: str) -> str:
    """The text without any credential that an address or the environment of this process holds."""
    for secret in sorted(_secret_values(), key=len, reverse=True):
        text = text.replace(secret, "***")
    return IN_QUERY.sub(r"\1***", ALONE.sub(r"\1***@", IN_ADDRESS.sub(r"\1:***@", text)))


def _secret_values() -> set[str]:
    given = {value for name, value in os.environ.items() if NAMES.search(name)}
    parts = given | {value.partition(":")[2] for value in given}  # user:password
    return {part for part in parts if len(part) >= SHORTEST}
