"""The nights that MLflow holds."""

import json
from typing import Any

import numpy as np
from mlflow import MlflowClient

from reports.load import all_runs, artifact
from reports.nightly.verdict import Night

EXPERIMENT = "nightly"
NIGHT = "night.json"


def nights(uri: str) -> list[Night]:
    """All of them, the oldest first; one whose recording was cut off is none."""
    client = MlflowClient(tracking_uri=uri)
    found = client.get_experiment_by_name(EXPERIMENT)
    if found is None or found.lifecycle_stage == "deleted":
        return []
    runs = [run for run in all_runs(client, found.experiment_id) if run.data.tags.get("ablate.kind") == "night"]
    contents = [artifact(client, run, NIGHT) for run in runs if run.info.status == "FINISHED"]
    return sorted((night(json.loads(content)) for content in contents if content), key=lambda one: one.when)


def night(document: dict[str, Any]) -> Night:
    runs = [
        {name: np.array(values, dtype=np.float64) for name, values in run["values"].items()}  # null becomes nan
        for run in document["runs"]
    ]
    return Night(document["when"], document["epoch"], runs[0], runs[1] if len(runs) > 1 else {}, document)
