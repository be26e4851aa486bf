"""The nights that MLflow holds."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from mlflow import MlflowClient

from reports.mlflow_runs import Artifacts, all_runs
from reports.nightly.measured import Night

EXPERIMENT = "nightly"
NIGHT = "night.json"
VERSION = 2  # of a night's document; those of 1 have other settings, and a second run of what was suspect


@dataclass(frozen=True)
class History:
    nights: list[Night]  # the oldest first; one whose recording was cut off is none
    older: int = 0  # nights of an older version of the document, which are left out


def read_history(uri: str) -> History:
    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    if experiment is None or experiment.lifecycle_stage == "deleted":
        return History([])
    runs = [run for run in all_runs(client, experiment.experiment_id) if run.data.tags.get("ablate.kind") == "night"]
    artifacts, whole = Artifacts(client), [run.info for run in runs if run.info.status == "FINISHED"]
    paths = [artifacts.path(info.run_id, info.artifact_uri or "", NIGHT) for info in whole]
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in paths if path is not None]
    recorded = [night(document) for document in documents if document["version"] == VERSION]
    return History(sorted(recorded, key=lambda member: member.when), len(documents) - len(recorded))


def night(document: dict[str, Any]) -> Night:
    values = {name: np.array(row, dtype=np.float64) for name, row in document["values"].items()}  # null becomes nan
    return Night(document["when"], document["epoch"], values, document)
