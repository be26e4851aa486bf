"""What MLflow holds: one run a cell and one for the grid, always through explicit run ids, always rebuildable.

The run folders are the truth. Recording is idempotent, and a failure of tracking never stops a training: what is
missing or disagrees is mended by `sync` and found by `audit` (sync.py).
"""

import json
import math
import re
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, Run, RunTag

from contrastive.errors import UserError
from contrastive.grid.names import without_folders
from contrastive.grid.plan import settings_by_name
from contrastive.grid.status import mark, outcome
from contrastive.runs import claim, store
from tasks.tracking import RECORDED, experiment_id, find_run, in_words, remove_runs

SOURCE = {"mlflow.source.name": "ablate", "mlflow.source.type": "LOCAL"}
GRID = SOURCE | {"ablate.kind": "grid"}
BATCH = 1000  # metrics a call; the most that MLflow takes
LARGEST_WEIGHTS = 64 * 2**20
WEIGHTS = "checkpoint/weights.safetensors"
ARTIFACTS = (
    "config.json",
    "scores.json",
    "provenance.json",
    "examples.npz",
    "picture.npz",
    "embeddings.npz",
    "predictions.npz",
    "FAILED.json",
)
EVALUATION, SECTION = "ablate.evaluation", "section"
NOT_A_CURVE = ("step", "epoch")
SCORE = re.compile(r"(.+/)?(test|validation|train|transfer)\.")  # the names of scores, and of nothing else


def record_cell(client: MlflowClient, experiment: str, folder: Path, sections: list[str], key: str = "") -> None:
    """Bring the run of a cell up to its folder; a run that already agrees is left as it is.

    `key` tells the evaluation that the experiment asks for: scores of another one are none of its own.
    """
    with in_words(), store.locked(store.home() / "locks" / "mlflow"):
        status, reason = outcome(folder, key)
        run = find_run(client, experiment, "ablate.cell", folder.name)
        tags, run_id = wanted_tags(folder, sections, key), run.info.run_id if run else ""
        agrees = run is not None and run.data.tags.get(RECORDED) == tags[RECORDED] and run.info.status != "RUNNING"
        if run is not None and agrees:
            set_tags(client, run, tags)
        else:
            tags |= {"ablate.status": status} | ({"ablate.error": reason[:5000]} if reason else {})
            if (folder / "provenance.json").exists():
                tags["mlflow.source.git.commit"] = store.read_json(folder / "provenance.json")["commit"]
            run_id = complete_run(client, experiment, folder, run, tags, status == "finished")
            if not reason and run is not None and run.info.run_id == run_id and "ablate.error" in run.data.tags:
                client.delete_tag(run_id, "ablate.error")
        ends = "FINISHED" if status == "finished" else "FAILED"
        if run is None or run.info.run_id != run_id or run.info.status != ends:
            client.set_terminated(run_id, ends, ended(folder))


def wanted_tags(folder: Path, sections: list[str], key: str) -> dict[str, str]:
    """The sections that show a cell, and a mark of what its folder holds: a run with both agrees with the folder."""
    tags = {SECTION: " | ".join(sections)[:5000], RECORDED: mark(folder, key), EVALUATION: key}
    return {name: value for name, value in tags.items() if value}


def complete_run(
    client: MlflowClient, experiment: str, folder: Path, run: Run | None, tags: dict[str, str], measured: bool
) -> str:
    """Send what is missing of a run; one that holds other curves or scores is replaced.

    A run that says RUNNING is not complete, whatever its tags say: its end is what is sent last.
    """
    rows = curve_rows(claim.at_work(folder))
    params: list[Param] = []
    scores = store.read_json(folder / "scores.json")["scores"] if measured else []
    if run is None or foreign_scores(run, scores) or not is_prefix(client, run.info.run_id, rows):
        run_id, params = fresh_run(client, experiment, folder, recorded_name(folder), run, tags), params_of(folder)
        sent, tags = 0, {}
    else:
        run_id = run.info.run_id
        sent = len(client.get_metric_history(run_id, "loss"))
    for name, path in artifacts_of(folder, measured).items():
        client.log_artifact(run_id, str(path), str(Path(name).parent) if "/" in name else None)
    values = [Metric(score["name"], score["value"], int(time.time() * 1000), 0) for score in scores]
    log_curves(client, run_id, rows[sent:], values, params, [RunTag(key, value) for key, value in tags.items()])
    if measured:
        client.log_inputs(run_id, [data_set(folder)])
    return run_id


def data_set(folder: Path) -> DatasetInput:
    """The data of a cell, as MLflow lists it."""
    cell, digest = store.read_json(folder / "config.json")["cell"], store.read_json(folder / "provenance.json")
    source = without_folders(cell["data"]["source"])
    name = source.partition("@")[0].partition(":")[2] or source
    data = Dataset(name[:500], str(digest.get("data_digest") or "unknown")[:8], "local", json.dumps({"uri": source}))
    return DatasetInput(data, [InputTag("mlflow.data.context", "training")])


def artifacts_of(folder: Path, measured: bool) -> dict[str, Path]:
    """The files of a cell that MLflow keeps, by their names there."""
    files = {name: folder / name for name in ARTIFACTS if measured or name not in store.EVALUATED}
    files["config.json"] = claim.at_work(folder) / "config.json"
    if (weights := folder / WEIGHTS).exists() and weights.stat().st_size < LARGEST_WEIGHTS:
        files[WEIGHTS] = weights
    return {name: path for name, path in files.items() if path.exists()}


def foreign_scores(run: Run, scores: list[dict[str, Any]]) -> list[str]:
    """Scores that the run holds besides these: of another evaluation, and nothing deletes a metric."""
    held = {name for name in run.data.metrics if SCORE.match(name)}
    return sorted(held - {score["name"] for score in scores})


def fresh_run(
    client: MlflowClient, experiment: str, folder: Path, name: str, old: Run | None, tags: dict[str, str]
) -> str:
    """A new run of a cell in the place of the ones that there were, as `find_run` found them."""
    while old is not None:
        remove_runs(client, [old])
        old = find_run(client, experiment, "ablate.cell", folder.name)
    tags = SOURCE | tags | {"ablate.cell": folder.name, "ablate.kind": "cell"}
    began = started(folder)
    return str(client.create_run(experiment_id(client, experiment), began, tags, name).info.run_id)


def ended(folder: Path) -> int | None:
    """When the work on a cell ended, in milliseconds; None while it goes on."""
    marker = next((path for name in ("DONE", "FAILED.json") if (path := folder / name).exists()), None)
    return None if marker is None else int(1000 * marker.stat().st_mtime)


def started(folder: Path) -> int | None:
    """When the work on a cell that has ended began."""
    end, path = ended(folder), folder / "provenance.json"
    return end - int(1000 * store.read_json(path)["wall_seconds"]) if end and path.exists() else end


def params_of(folder: Path) -> list[Param]:
    config = claim.at_work(folder) / "config.json"
    cell = store.read_json(config)["cell"] if config.exists() else {}
    return [Param(key, without_folders(value)[:6000]) for key, value in settings_by_name(cell).items()]


def log_curves(
    client: MlflowClient,
    run_id: str,
    rows: list[dict[str, Any]],
    scores: Sequence[Metric] = (),
    params: Sequence[Param] = (),
    tags: Sequence[RunTag] = (),
) -> None:
    """Lines of a log, and what else is to be said of a run, in as few calls as there can be."""
    now = int(time.time() * 1000)
    batch: list[Metric] = []
    for begin in range(0, len(scores), BATCH):
        if batch:
            client.log_batch(run_id, metrics=batch)
        batch = list(scores[begin : begin + BATCH])
    for row in rows:
        points = [
            Metric(key, value, now, row["step"])
            for key, value in row.items()
            if key not in NOT_A_CURVE and isinstance(value, int | float) and math.isfinite(value)
        ]
        if len(batch) + len(points) > BATCH:  # a line is sent whole: what is missing is told by lines
            client.log_batch(run_id, metrics=batch)
            batch = []
        batch += points
    if batch or params or tags:
        client.log_batch(run_id, metrics=batch, params=list(params), tags=list(tags))


def is_prefix(client: MlflowClient, run_id: str, rows: list[dict[str, Any]]) -> bool:
    history = sorted(client.get_metric_history(run_id, "loss"), key=lambda metric: metric.step)
    return [(m.step, m.value) for m in history] == [(row["step"], row["loss"]) for row in rows[: len(history)]]


def curve_rows(folder: Path) -> list[dict[str, Any]]:
    """The whole lines of metrics.jsonl; a last one without its end is still being written."""
    try:
        text = (folder / "metrics.jsonl").read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    try:
        return [json.loads(line) for line in text.split("\n")[:-1]]
    except ValueError as error:
        raise UserError(f"{folder / 'metrics.jsonl'} is damaged: `ablate audit EXPERIMENT --mend`") from error


def recorded_name(folder: Path) -> str:
    path = claim.at_work(folder) / "config.json"
    return str(store.read_json(path)["name"]) if path.exists() else folder.name


def set_tags(client: MlflowClient, run: Run, tags: dict[str, str]) -> None:
    changed = [RunTag(key, value) for key, value in tags.items() if run.data.tags.get(key) != value]
    if changed:
        client.log_batch(run.info.run_id, tags=changed)


def record_grid(client: MlflowClient, experiment: str, document: dict[str, Any]) -> None:
    """Which cells make which section, as the artifact grid.json of a run of its own.

    Two machines that record for the first time at once make a run each: the newest is read, and older ones go as soon
    as their machine has finished them.
    """
    with in_words(), store.locked(store.home() / "locks" / "mlflow"):
        run, *older = grid_runs(client, experiment) or [
            client.create_run(experiment_id(client, experiment), first_start(client, experiment), GRID, "grid")
        ]
        remove_runs(client, [other for other in older if other.info.status == "FINISHED"])
        now = int(time.time() * 1000)
        points = [
            Metric(f"reference.{name}", value, now, 0)
            for r in document["references"]
            for name, value in r["scores"].items()
        ]
        held = run.data.metrics
        client.log_batch(run.info.run_id, metrics=[m for m in points if held.get(m.key) != m.value])
        with tempfile.TemporaryDirectory() as temporary:
            store.write_json(Path(temporary) / "grid.json", document)
            client.log_artifact(run.info.run_id, str(Path(temporary) / "grid.json"))
        if run.info.status != "FINISHED":
            client.set_terminated(run.info.run_id, "FINISHED")


def first_start(client: MlflowClient, experiment: str) -> int | None:
    """When the first cell began."""
    found = client.search_runs([experiment_id(client, experiment)], max_results=1, order_by=["attributes.start_time"])
    return found[0].info.start_time if found else None


def grid_runs(client: MlflowClient, experiment: str) -> list[Run]:
    """The runs that hold grid.json, the newest first."""
    return list(client.search_runs([experiment_id(client, experiment)], "tags.`ablate.kind` = 'grid'"))
