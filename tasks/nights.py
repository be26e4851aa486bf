"""What MLflow holds of nights: one run each, in an experiment of its own; all that is said of them is read from it."""

import math
import tempfile
import time
from pathlib import Path
from statistics import fmean
from typing import Any

from mlflow.entities import Metric

from contrastive.runs import store
from reports.nightly import page
from reports.nightly.against import write_against
from reports.nightly.history import EXPERIMENT, NIGHT, night, read_history
from reports.nightly.measured import AT, Night
from tasks.tracking import experiment_id, in_words, open_tracker
from tasks.tracking_address import tracking_uri


def past() -> list[Night]:
    """The nights that tonight can be compared with, the oldest first."""
    open_tracker(store.home())
    with in_words():
        return read_history(tracking_uri(store.home())).nights


def record_night(document: dict[str, Any]) -> None:
    """One night as a run: its document as an artifact, means as metrics for the MLflow UI."""
    client, values = open_tracker(store.home()), document["values"]
    tags = {"ablate.kind": "night", "mlflow.source.git.commit": document["commit"], "ablate.epoch": document["epoch"]}
    now = int(time.time() * 1000)
    means = {
        name: fmean(each) for name, each in values.items() if AT not in name and each and None not in each
    }  # fmt: skip
    with in_words(), store.locked(store.home() / "locks" / "mlflow"):
        run = client.create_run(experiment_id(client, EXPERIMENT), run_name=document["when"], tags=tags).info.run_id
        with tempfile.TemporaryDirectory() as folder:
            store.write_json(Path(folder) / NIGHT, document)
            client.log_artifact(run, str(Path(folder) / NIGHT))
        client.log_batch(run, metrics=[Metric(k, v, now, 0) for k, v in means.items() if math.isfinite(v)])
        client.set_terminated(run, "FINISHED")


def report_night() -> page.NightlyResult:
    """Write the report of the nights from MLflow, below the home."""
    with in_words():
        return page.write_nightly(tracking_uri(store.home()), pages())


def report_against(then: dict[str, Any], now: dict[str, Any]) -> page.NightlyResult:
    """Write what one document says against another, below the home; MLflow knows nothing of it."""
    return write_against(night(then), night(now), pages())


def pages() -> Path:
    return store.home() / "reports" / "output" / "nightly"
