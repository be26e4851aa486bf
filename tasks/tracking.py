"""What MLflow holds: one run a cell and one for the grid, always through explicit run ids, always rebuildable.

The run folders are the truth. Recording is idempotent, and a failure of tracking never stops a training: what is
missing or disagrees is mended by `sync` and found by `audit`.
"""

import errno
import json
import logging
import math
import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, Run, RunTag
from mlflow.exceptions import MlflowException

from contrastive.cells.identity import evaluation_key
from contrastive.cells.plan import Plan, settings_by_name
from contrastive.cells.previews import excerpts
from contrastive.cells.status import up_to_date
from contrastive.errors import UserError
from contrastive.runs import claim, store
from reports.mlflow_runs import Artifacts, all_runs
from tasks.database import set_aside_if_damaged
from tasks.secrets import masked
from tasks.tracking_address import is_database, tracking_uri

logger = logging.getLogger(__name__)
# MLflow logs each error of a database with its traceback, and then raises it: it is said once, in words
logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)

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
RECORDED = "ablate.recorded"
EVALUATION = "ablate.evaluation"
MEASURED_OTHERWISE = "measured by other settings since; `ablate run` measures it again"
NOT_A_CURVE = ("step", "epoch")
ADVICE = "(raised as a result of Query-invoked autoflush"  # of SQLAlchemy, to programmers, before the error itself
SCORE = re.compile(r"(.+/)?(test|validation|train|transfer)\.")  # the names of scores, and of nothing else

_open: dict[str, MlflowClient] = {}  # address → who speaks to it


class TrackingFailed(UserError):
    """MLflow could not be used; in words, without the credentials that an error of it may quote."""


@contextmanager
def in_words(blamed: type[Exception] = Exception) -> Iterator[None]:
    """Errors as MLflow's, told in words: all, or those of one kind alone."""
    try:
        yield
    except UserError:
        raise
    except blamed as error:  # whatever a tracking server, a database or an address may raise
        raise TrackingFailed(said(error)) from None


def said(error: Exception) -> str:
    """What an error of MLflow means, in one line."""
    if "database or disk is full" in str(error):  # SQLite's words
        error = OSError(errno.ENOSPC, "", str(store.home() / "mlflow.db"))
    if isinstance(error, OSError) and error.errno in store.FULL + store.FORBIDDEN + store.MISPLACED:
        return store.explain(error)
    place, lines = masked(tracking_uri(store.home())), masked(str(error)).strip().split("\n")
    first = next((line for line in lines if not line.startswith(ADVICE)), "") or type(error).__name__
    return (
        f"MLflow at {place} could not be used: {first}; results are safe in their run folders: the same command goes "
        "on from them; `ablate audit EXPERIMENT --mend` replaces what MLflow holds where it is damaged"
    )


def open_tracker(home: Path) -> MlflowClient:
    if (uri := tracking_uri(home)) in _open:
        return _open[uri]
    home.mkdir(parents=True, exist_ok=True)
    # two processes that create a new database at once would collide
    with in_words(), store.locked(home / "locks" / "mlflow"):
        set_aside_if_damaged(home)
        return _open.setdefault(uri, MlflowClient(tracking_uri=uri))


def experiment_id(client: MlflowClient, name: str) -> str:
    """The experiment of this name, made when there is none."""
    found = client.get_experiment_by_name(name)
    if found is None:
        # a server keeps files itself; beside a database they lie in the home
        place = (store.home() / "mlartifacts" / name).as_uri() if is_database(tracking_uri(store.home())) else None
        try:
            return str(client.create_experiment(name, artifact_location=place))
        except MlflowException:  # another machine, with locks of its own, has just made it
            if (found := client.get_experiment_by_name(name)) is None:
                raise
    if found.lifecycle_stage == "deleted":
        raise UserError(
            f"the MLflow experiment {name} was deleted: restore it in the MLflow UI, or rename the experiment"
        )
    return str(found.experiment_id)


def find_run(client: MlflowClient, experiment: str, tag: str, value: str) -> Run | None:
    assert re.fullmatch(r"[\w.-]+", value), f"`{value}` could end the text in the filter, and say something else"
    found = client.search_runs([experiment_id(client, experiment)], f"tags.`{tag}` = '{value}'", max_results=1)
    return found[0] if found else None


def record_cell(client: MlflowClient, experiment: str, folder: Path, sections: list[str], key: str = "") -> None:
    """Bring the run of a cell up to its folder; a run that already agrees is left as it is.

    `key` tells the evaluation that the experiment asks for: scores of another one are none of its own.
    """
    with in_words(), store.locked(store.home() / "locks" / "mlflow"):
        status, reason = outcome(folder, key)
        run = find_run(client, experiment, "ablate.cell", folder.name)
        tags = wanted_tags(folder, sections, key)
        if run is None or run.data.tags.get(RECORDED) != tags[RECORDED] or run.info.status == "RUNNING":
            tags |= {"ablate.status": status, "ablate.error": reason[:5000]}
            if (folder / "provenance.json").exists():
                tags["mlflow.source.git.commit"] = store.read_json(folder / "provenance.json")["commit"]
            run_id = complete_run(client, experiment, folder, run, tags, status == "finished")
        else:
            run_id = run.info.run_id
            set_tags(client, run, tags)
        if status == "finished":
            client.set_terminated(run_id, "FINISHED") if run is None or run.info.status != "FINISHED" else None
        elif run is None or run.info.status != "FAILED":
            client.set_terminated(run_id, "FAILED")


def wanted_tags(folder: Path, sections: list[str], key: str) -> dict[str, str]:
    """The sections that show a cell, and a mark of what its folder holds: a run with both agrees with the folder."""
    status, reason = outcome(folder, key)
    mark = f"{status} {store.digest_file(folder / 'DONE')[:16] if status == 'finished' else reason}"
    return {"ablate.sections": " | ".join(sections)[:5000], RECORDED: mark[:5000], EVALUATION: key}


def outcome(folder: Path, key: str) -> tuple[str, str]:
    """finished, diverged, failed or unfinished, and why. Measured by other settings it is not finished."""
    whole = store.finished(folder)
    if whole and (not key or up_to_date(folder, key)):
        return "finished", ""
    failure = store.failure(folder)
    if failure is None:
        return "unfinished", MEASURED_OTHERWISE if whole else "interrupted before it was finished"
    return ("diverged" if failure["kind"] == "diverged" else "failed"), str(failure["error"])


def complete_run(
    client: MlflowClient, experiment: str, folder: Path, run: Run | None, tags: dict[str, str], measured: bool
) -> str:
    """Send what is missing of a run; one that holds other curves or scores is replaced.

    A run that says RUNNING is not complete, whatever its tags say: its end is what is sent last.
    """
    rows = lines(claim.at_work(folder))
    params: list[Param] = []
    scores = store.read_json(folder / "scores.json")["scores"] if measured else []
    if run is None or foreign_scores(run, scores) or not is_prefix(client, run.info.run_id, rows):
        run_id, params = fresh_run(client, experiment, folder, name_of(folder), run, tags), params_of(folder)
        sent, tags = 0, {}
    else:
        run_id = run.info.run_id
        sent = len(client.get_metric_history(run_id, "loss"))
    for name, path in artifacts_of(folder, measured).items():
        client.log_artifact(run_id, str(path), str(Path(name).parent) if "/" in name else None)
    values = [Metric(score["name"], score["value"], int(time.time() * 1000), 0) for score in scores]
    log_curves(client, run_id, rows[sent:], values, params, [RunTag(key, value) for key, value in tags.items()])
    return run_id


def artifacts_of(folder: Path, measured: bool) -> dict[str, Path]:
    """The files of a cell that MLflow keeps, by their names there."""
    found = {name: folder / name for name in ARTIFACTS if measured or name not in store.EVALUATED}
    found["config.json"] = claim.at_work(folder) / "config.json"
    if (weights := folder / WEIGHTS).exists() and weights.stat().st_size < LARGEST_WEIGHTS:
        found[WEIGHTS] = weights
    return {name: path for name, path in found.items() if path.exists()}


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
    tags = tags | {"ablate.cell": folder.name, "ablate.kind": "cell"}
    return str(client.create_run(experiment_id(client, experiment), run_name=name, tags=tags).info.run_id)


def remove_runs(client: MlflowClient, runs: list[Run]) -> None:
    """In the trash nothing can be told of a run any more: one that says RUNNING would say so for ever."""
    for run in runs:
        if run.info.status == "RUNNING":
            client.set_terminated(run.info.run_id, "KILLED")
        client.delete_run(run.info.run_id)


def all_of_cells(client: MlflowClient, experiment: str) -> dict[str, list[Run]]:
    """Cell → its runs, of which there should be one."""
    found: dict[str, list[Run]] = {}
    with in_words():
        for run in all_runs(client, experiment_id(client, experiment)):
            if "ablate.cell" in run.data.tags:
                found.setdefault(run.data.tags["ablate.cell"], []).append(run)
    return found


def params_of(folder: Path) -> list[Param]:
    config = claim.at_work(folder) / "config.json"
    cell = store.read_json(config)["cell"] if config.exists() else {}
    return [Param(key, value[:6000]) for key, value in settings_by_name(cell).items()]


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


def lines(folder: Path) -> list[dict[str, Any]]:
    """The whole lines of metrics.jsonl; a last one without its end is still being written."""
    try:
        text = (folder / "metrics.jsonl").read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    try:
        return [json.loads(line) for line in text.split("\n")[:-1]]
    except ValueError as error:
        raise UserError(f"{folder / 'metrics.jsonl'} is damaged: `ablate audit EXPERIMENT --mend`") from error


def name_of(folder: Path) -> str:
    path = claim.at_work(folder) / "config.json"
    return str(store.read_json(path)["name"]) if path.exists() else folder.name


def set_tags(client: MlflowClient, run: Run, tags: dict[str, str]) -> None:
    changed = [RunTag(key, value) for key, value in tags.items() if run.data.tags.get(key) != value]
    if changed:
        client.log_batch(run.info.run_id, tags=changed)


def record_grid(
    client: MlflowClient, experiment: str, document: dict[str, Any], texts: Mapping[str, str] | None = None
) -> None:
    """Which cells make which section, as the artifact grid.json of a run of its own; beside it, texts.json, how the
    texts begin that pictures show. Where nobody can tell any more, what it holds of them stays."""
    with in_words(), store.locked(store.home() / "locks" / "mlflow"):
        run = find_run(client, experiment, "ablate.kind", "grid")
        if run is None:
            run = client.create_run(experiment_id(client, experiment), run_name="grid", tags={"ablate.kind": "grid"})
        now = int(time.time() * 1000)
        points = [
            Metric(f"reference.{name}", value, now, 0)
            for r in document["references"]
            for name, value in r["scores"].items()
        ]
        known = run.data.metrics
        client.log_batch(run.info.run_id, metrics=[m for m in points if known.get(m.key) != m.value])
        with tempfile.TemporaryDirectory() as temporary:
            for name, content in {"grid.json": document, "texts.json": texts}.items():
                if content:
                    store.write_json(Path(temporary) / name, content)
                    client.log_artifact(run.info.run_id, str(Path(temporary) / name))
        if run.info.status != "FINISHED":
            client.set_terminated(run.info.run_id, "FINISHED")


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
    record_grid(client, name, document, excerpts(plan))
    return f"{count} of {len(plan.statuses)} cells are in MLflow ({masked(tracking_uri(store.home()))})"


@in_words()
def audit(plan: Plan) -> list[str]:
    """Where run folders are damaged, or MLflow says something else than they do."""
    client, found, key = open_tracker(store.home()), [], evaluation_key(plan.experiment.evaluation)
    for cell, status in plan.statuses.items():
        folder, name = store.run_folder(status.id), plan.name(cell)
        damage = store.damage(folder, "DONE", thorough=True)
        if damage and store.failure(folder) is None:
            found.append(f"{status.id} {name}: not finished: {damage}")
            continue
        if outcome(folder, key)[1] == MEASURED_OTHERWISE:
            found.append(f"{status.id} {name}: {MEASURED_OTHERWISE}")
            continue
        run = find_run(client, plan.experiment.name, "ablate.cell", status.id)
        if run is None:
            found.append(f"{status.id} {name}: not in MLflow")
            continue
        found += [f"{status.id} {name}: {difference}" for difference in differences(client, run, folder, key)]
    return found


def differences(client: MlflowClient, run: Run, folder: Path, key: str = "") -> Iterator[str]:
    status, _ = outcome(folder, key)
    if run.data.tags.get("ablate.status") != status:
        yield f"MLflow says {run.data.tags.get('ablate.status', 'running')}, the folder is {status}"
    rows = lines(claim.at_work(folder))
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


def different_artifacts(client: MlflowClient, run: Run, wanted: Mapping[str, Path]) -> Iterator[str]:
    """Files that MLflow lacks, or holds with other bytes than the folder."""
    artifacts = Artifacts(client)
    for name, path in wanted.items():
        held = artifacts.path(run.info.run_id, run.info.artifact_uri or "", name)
        if held is None:
            yield f"MLflow lacks {name}"
        elif not held.is_file() or store.digest_file(held) != store.digest_file(path):
            yield f"{name} in MLflow is not that of the folder"
