"""Which MLflow store is meant, for `ablate up` too, which does without the seconds of importing MLflow."""

import os
from pathlib import Path

TRAINING = "workflowType=machine_learning"  # in an address of MLflow's pages, which else are those of language models
DATABASES = ("sqlite:", "postgresql:", "postgresql+", "mysql:", "mysql+", "mssql:", "mssql+")


def tracking_uri(home: Path) -> str:
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{home / 'mlflow.db'}"


def is_database(uri: str) -> bool:
    """Whether the store is a database that is written to directly, and no server that keeps files, too."""
    return uri.startswith(DATABASES)
