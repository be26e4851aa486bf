"""Record nights in MLflow, one run each in an experiment of their own, and report them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlflow.entities import Run

from contrastive.errors import UserError
from contrastive.runs import store
from reports.load import Artifacts, all_runs
from reports.night import NIGHT, VERSION, Night, NightVerdict, write_nights
from tasks.tracking import as_tracking_error, experiment_id, open_tracker, writing

EXPERIMENT, DOCUMENT = "nightly", "night.json"
ACKNOWLEDGED = "ablate.acknowledged"  # tag of a night: why later nights are compared with it
NONE = "MLflow holds no night yet: `ablate nightly` measures one"


def night_runs() -> list[Run]:
    """Return the finished runs of nights, newest first."""
    client = open_tracker(store.home())
    with as_tracking_error():
        runs = all_runs(client, experiment_id(client, EXPERIMENT))
    return [run for run in runs if run.data.tags.get("ablate.kind") == "night" and run.info.status == "FINISHED"]


def past() -> list[Night]:
    """Return the recorded nights, oldest first, without those that another version recorded."""
    artifacts, nights = Artifacts(open_tracker(store.home())), []
    for run in night_runs():
        with as_tracking_error():
            path = artifacts.path(run.info.run_id, run.info.artifact_uri or "", DOCUMENT)
        content = None if path is None else json.loads(path.read_text(encoding="utf-8"))
        if content and content["version"] == VERSION:
            night = NIGHT.validate_python(content)
            nights.append(replace(night, acknowledged=run.data.tags.get(ACKNOWLEDGED, "")))
    return sorted(nights, key=lambda night: night.when)


def record_night(document: dict[str, Any]) -> None:
    """Record a night as a run, its document as an artifact."""
    client = open_tracker(store.home())
    tags = {"ablate.kind": "night", "mlflow.source.git.commit": document["commit"]}
    with writing():
        run = client.create_run(experiment_id(client, EXPERIMENT), run_name=document["when"], tags=tags).info.run_id
        client.log_dict(run, document, DOCUMENT)
        client.set_terminated(run, "FINISHED")


def acknowledge(reason: str) -> Path:
    """Accept the last night as the new state: later nights are compared with it. Return the path of the page."""
    if not (runs := night_runs()):
        raise UserError(NONE)
    with as_tracking_error():
        open_tracker(store.home()).set_tag(runs[0].info.run_id, ACKNOWLEDGED, reason)
    return report_night()[0]


def report_night() -> tuple[Path, NightVerdict]:
    """Write the nightly report from MLflow into the home."""
    if not (nights := past()):
        raise UserError(NONE)
    return write_nights(nights, store.report_folder("nightly"))
