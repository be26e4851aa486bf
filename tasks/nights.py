"""Record nights in MLflow, one run each in an experiment of their own, and report them."""

import math
import tempfile
import time
from pathlib import Path
from typing import Any

from mlflow.entities import Metric

from contrastive.errors import UserError
from contrastive.runs import store
from reports import nightly
from tasks.address import tracking_uri
from tasks.tracking import as_tracking_error, experiment_id, open_tracker

NONE = "MLflow holds no night yet: `ablate nightly` measures one"


def past() -> list[nightly.Night]:
    """Return the recorded nights, oldest first."""
    open_tracker(store.home())
    with as_tracking_error():
        return nightly.read_nights(tracking_uri(store.home()))


def record_night(document: dict[str, Any]) -> None:
    """Record a night as a run: its document as an artifact, means over the panel as metrics for the MLflow UI."""
    client, now = open_tracker(store.home()), int(time.time() * 1000)
    night = nightly.NIGHT.validate_python(document)
    values = {score: night.values(score, nightly.PANEL) for score in night.scores}
    means = {score: float(each.mean()) for score, each in values.items() if each is not None}
    means |= {name: math.exp(log) for name in night.timings if (log := night.log_of(name)) is not None}
    tags = {"ablate.kind": "night", "mlflow.source.git.commit": night.commit}
    with as_tracking_error(), store.locked(store.home() / "locks" / "mlflow"):
        run = client.create_run(experiment_id(client, nightly.EXPERIMENT), run_name=night.when, tags=tags).info.run_id
        with tempfile.TemporaryDirectory() as folder:
            store.write_json(Path(folder) / nightly.DOCUMENT, document)
            client.log_artifact(run, str(Path(folder) / nightly.DOCUMENT))
        client.log_batch(run, metrics=[Metric(k, v, now, 0) for k, v in means.items() if math.isfinite(v)])
        client.set_terminated(run, "FINISHED")


def acknowledge(reason: str) -> nightly.NightlyResult:
    """Accept the last night as the new state: later nights are compared with it."""
    client = open_tracker(store.home())
    with as_tracking_error():
        runs = nightly.night_runs(client)
        if not runs:
            raise UserError(NONE)
        client.set_tag(runs[0].info.run_id, nightly.ACKNOWLEDGED, reason)
    return report_night()


def report_night() -> nightly.NightlyResult:
    """Write the nightly report from MLflow into the home."""
    if not (nights := past()):
        raise UserError(NONE)
    return nightly.write_nightly(nights, pages())


def pages() -> Path:
    return store.report_folder("nightly")
