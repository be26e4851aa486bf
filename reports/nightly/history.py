"""The nights that MLflow holds."""

import json
from typing import Any

import numpy as np
from mlflow import MlflowClient

from reports.mlflow_runs import Artifacts, all_runs
from reports.nightly.measured import Night

EXPERIMENT = "nightly"
NIGHT = "night.json"


def nights(uri: str) -> list[Night]:
    """All of them, the oldest first; one whose recording was cut off is none."""
    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    if experiment is None or experiment.lifecycle_stage == "deleted":
        return []
    runs = [run for run in all_runs(client, experiment.experiment_id) if run.data.tags.get("ablate.kind") == "night"]
    artifacts, whole = Artifacts(client), [run.info for run in runs if run.info.status == "FINISHED"]
    paths = [artifacts.path(info.run_id, info.artifact_uri or "", NIGHT) for info in whole]
    recorded = [night(json.loads(path.read_text(encoding="utf-8"))) for path in paths if path is not None]
    return sorted(recorded, key=lambda recorded_night: recorded_night.when)


def night(document: dict[str, Any]) -> Night:
    runs = [
        {name: np.array(values, dtype=np.float64) for name, values in run["values"].items()}  # null becomes nan
        for run in document["runs"]
    ]
    return Night(document["when"], document["epoch"], runs[0], runs[1] if len(runs) > 1 else {}, document)
