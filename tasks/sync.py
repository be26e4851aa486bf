"""Where MLflow and the run folders differ: `sync` brings MLflow up to the folders, `audit` says what is left."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Run

from contrastive.cells.identity import evaluation_key
from contrastive.cells.plan import Plan
from contrastive.cells.status import MEASURED_OTHERWISE, outcome
from contrastive.runs import claim, store
from reports.mlflow_runs import Artifacts, all_runs
from tasks.record import (
    EVALUATION,
    artifacts_of,
    curve_rows,
    foreign_scores,
    is_prefix,
    params_of,
    record_cell,
    record_grid,
    wanted_tags,
)
from tasks.secrets import masked
from tasks.tracking import experiment_id, find_run, in_words, open_tracker
from tasks.tracking_address import tracking_uri


@in_words()
def sync(plan: Plan, document: dict[str, Any]) -> str:
    """Bring MLflow up to the run folders of an experiment, also to those that other experiments have trained."""
    client, name, key = open_tracker(store.home()), plan.experiment.name, evaluation_key(plan.experiment.evaluation)
    held = {run.data.tags.get("ablate.cell"): run for run in all_runs(client, experiment_id(client, name))}
    count = 0
    for cell, status in plan.statuses.items():
        folder, sections = store.run_folder(status.id), plan.sections[cell]
        if not folder.exists():
            continue
        count += 1
        run = held.get(status.id)
        own = run is not None and run.data.tags.get(EVALUATION) == key
        if own and outcome(folder, key)[1] == MEASURED_OTHERWISE:
            continue  # for another experiment since; what the run holds was measured for this one
        if (
            run is None
            or run.info.status == "RUNNING"
            or not wanted_tags(folder, sections, key).items() <= run.data.tags.items()
        ):
            record_cell(client, name, folder, sections, key)
    record_grid(client, name, document)
    return f"{count} of {len(plan.statuses)} cells are in MLflow ({masked(tracking_uri(store.home()))})"


@in_words()
def audit(plan: Plan) -> list[str]:
    """Where run folders are damaged, or MLflow says something else than they do."""
    client, differing, key = open_tracker(store.home()), [], evaluation_key(plan.experiment.evaluation)
    for cell, status in plan.statuses.items():
        folder, name = store.run_folder(status.id), plan.name(cell)
        damage = store.damage(folder, "DONE", thorough=True)
        if damage and store.failure(folder) is None:
            differing.append(f"{status.id} {name}: not finished: {damage}")
            continue
        if outcome(folder, key)[1] == MEASURED_OTHERWISE:
            differing.append(f"{status.id} {name}: {MEASURED_OTHERWISE}")
            continue
        run = find_run(client, plan.experiment.name, "ablate.cell", status.id)
        if run is None:
            differing.append(f"{status.id} {name}: not in MLflow")
            continue
        differing += [
            f"{status.id} {name}: {difference}" for difference in differences_of_run(client, run, folder, key)
        ]
    return differing


def differences_of_run(client: MlflowClient, run: Run, folder: Path, key: str = "") -> Iterator[str]:
    status, _ = outcome(folder, key)
    if run.data.tags.get("ablate.status") != status:
        yield f"MLflow says {run.data.tags.get('ablate.status', 'running')}, the folder is {status}"
    rows = curve_rows(claim.at_work(folder))
    if len(client.get_metric_history(run.info.run_id, "loss")) != len(rows) or not is_prefix(
        client, run.info.run_id, rows
    ):
        yield "the loss curve in MLflow is not that of metrics.jsonl"
    if status == "finished":
        scores = store.read_json(folder / "scores.json")["scores"]
        yield from (f"MLflow holds {name}, which the folder has not" for name in foreign_scores(run, scores))
        for score in scores:
            held = run.data.metrics.get(score["name"])
            if held != score["value"]:
                yield f"{score['name']} is {score['value']}, and MLflow holds {held}"
    if {param.key: param.value for param in params_of(folder)} != run.data.params:
        yield "the settings in MLflow are not those of config.json"
    yield from different_artifacts(client, run, artifacts_of(folder, status == "finished"))


def different_artifacts(client: MlflowClient, run: Run, files: Mapping[str, Path]) -> Iterator[str]:
    """Files that MLflow lacks, or holds with other bytes than the folder."""
    artifacts = Artifacts(client)
    for name, path in files.items():
        held = artifacts.path(run.info.run_id, run.info.artifact_uri or "", name)
        if held is None:
            yield f"MLflow lacks {name}"
        elif not held.is_file() or store.digest_file(held) != store.digest_file(path):
            yield f"{name} in MLflow is not that of the folder"
