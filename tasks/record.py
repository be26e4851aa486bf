"""Record cells and grids in MLflow: a run per cell, with curves while it trains, and one per grid.

The run folders are the source of truth, from which all can be made again. Recording is idempotent, and a tracking
failure never stops a training: `audit` finds what is missing or differs, and `sync` records it anew (sync.py).
"""

import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, Run, RunTag

from contrastive.config.experiment import without_folders
from contrastive.errors import UserError
from contrastive.grid.plan import settings_by_name
from contrastive.grid.status import outcome, result_mark
from contrastive.runs import claim, store
from reports.study import SCORE
from tasks.tracking import RECORDED, experiment_id, find_runs, open_tracker, or_warning, remove_runs, writing

SOURCE = {"mlflow.source.name": "ablate", "mlflow.source.type": "LOCAL"}
GRID = SOURCE | {"ablate.kind": "grid"}
BATCH = 1000  # most metrics that MLflow takes in a call
ARTIFACTS = (
    *("config.json", "scores.json", "provenance.json", "FAILED.json"),
    *("examples.npz", "picture.npz", "embeddings.npz", "predictions.npz"),
)
EVALUATION, SECTION = "ablate.evaluation", "section"
ENDED = ("FINISHED", "FAILED")  # statuses of completely recorded runs: the status is sent last
NOT_A_CURVE = ("step", "epoch")
Row: TypeAlias = dict[str, Any]  # a line of metrics.jsonl


@dataclass(frozen=True)
class WantedRun:
    """Content of the MLflow run of a cell, read from its run folder."""

    status: str
    tags: dict[str, str]
    params: dict[str, str]
    rows: list[Row]
    scores: dict[str, float]
    files: dict[str, Path]


def wanted_run(folder: Path, key: str) -> WantedRun:
    """Return what the MLflow run of a cell should contain; `key` identifies the evaluation whose scores count."""
    status, reason = outcome(folder, key)
    measured = status == "finished"
    work, provenance = claim.current_folder(folder), folder / "provenance.json"
    tags = {"ablate.status": status} | ({"ablate.error": reason[:5000]} if reason else {})
    if provenance.exists():
        tags["mlflow.source.git.commit"] = store.read_json(provenance)["commit"]
    scores = store.read_json(folder / "scores.json")["scores"] if measured else []
    files = {name: folder / name for name in ARTIFACTS if measured or name not in store.EVALUATED}
    files["config.json"] = work / "config.json"
    return WantedRun(
        status,
        tags,
        params_of(folder),
        curve_rows(work),
        {score["name"]: score["value"] for score in scores},
        {name: path for name, path in files.items() if path.exists()},
    )


def record_cell(client: MlflowClient, experiment: str, folder: Path, sections: list[str], key: str = "") -> None:
    """Make the run of a cell equal to its folder: keep a run that agrees, delete one that differs and record it anew.

    A run with curves sent during training is continued. `key` identifies the evaluation of the experiment; scores of
    another evaluation do not count.
    """
    with writing():
        runs, tags = find_runs(client, experiment, "ablate.cell", folder.name), quick_tags(folder, sections, key)
        if is_recorded(runs, tags):
            return
        wanted = wanted_run(folder, key)
        sent = lines_sent(client, runs[0], wanted.rows) if len(runs) == 1 else None
        run_id = fresh_run(client, experiment, folder, runs) if sent is None else runs[0].info.run_id
        for path in wanted.files.values():
            client.log_artifact(run_id, str(path))
        log(client, run_id, wanted.rows[sent or 0 :], wanted.scores, wanted.params, wanted.tags | tags)
        client.set_terminated(run_id, "FINISHED" if wanted.status == "finished" else "FAILED")


def quick_tags(folder: Path, sections: list[str], key: str) -> dict[str, str]:
    """Return the tags that tell whether a run agrees with its folder: sections, and a digest of the results."""
    tags = {SECTION: " | ".join(sections)[:5000], RECORDED: result_mark(folder, key), EVALUATION: key}
    return {name: value for name, value in tags.items() if value}


def is_recorded(runs: list[Run], tags: dict[str, str]) -> bool:
    """Return whether a cell has one run, which was recorded to its end with these tags."""
    return len(runs) == 1 and runs[0].info.status in ENDED and tags.items() <= runs[0].data.tags.items()


def lines_sent(client: MlflowClient, run: Run, rows: list[Row]) -> int | None:
    """Return how many lines of the log a run with nothing but curves has; None for a run to replace."""
    if run.info.status != "RUNNING" or RECORDED in run.data.tags or any(map(SCORE.match, run.data.metrics)):
        return None
    held = losses_held(client, run)
    return len(held) if held == losses(rows[: len(held)]) else None


def losses_held(client: MlflowClient, run: Run) -> list[tuple[int, float]]:
    return sorted((metric.step, metric.value) for metric in client.get_metric_history(run.info.run_id, "loss"))


def losses(rows: list[Row]) -> list[tuple[int, float]]:
    return [(row["step"], row["loss"]) for row in rows]


def fresh_run(client: MlflowClient, experiment: str, folder: Path, old: list[Run]) -> str:
    """Create a new run of a cell that replaces the old ones."""
    remove_runs(client, old)
    config = claim.current_folder(folder) / "config.json"
    tags = SOURCE | {"ablate.cell": folder.name, "ablate.kind": "cell"}
    name = str(store.read_json(config)["name"]) if config.exists() else folder.name
    return str(client.create_run(experiment_id(client, experiment), tags=tags, run_name=name).info.run_id)


def params_of(folder: Path) -> dict[str, str]:
    config = claim.current_folder(folder) / "config.json"
    cell = store.read_json(config)["cell"] if config.exists() else {}
    return {key: without_folders(value)[:6000] for key, value in settings_by_name(cell).items()}


def log(
    client: MlflowClient,
    run_id: str,
    rows: list[Row],
    scores: dict[str, float],
    params: dict[str, str],
    tags: dict[str, str],
) -> None:
    """Send lines of a log, scores, params and tags in as few calls as possible; a line is never divided."""
    now, batch = int(time.time() * 1000), list[Metric]()
    curves = [[Metric(name, value, now, row["step"]) for name, value in finite_values(row)] for row in rows]
    for points in [*curves, *([Metric(name, value, now, 0)] for name, value in scores.items())]:
        if len(batch) + len(points) > BATCH:
            client.log_batch(run_id, metrics=batch)
            batch = []
        batch += points
    if batch or params or tags:
        client.log_batch(run_id, batch, [Param(*pair) for pair in params.items()], [RunTag(*p) for p in tags.items()])


def finite_values(row: Row) -> list[tuple[str, float]]:
    return [(k, v) for k, v in row.items() if k not in NOT_A_CURVE and isinstance(v, int | float) and math.isfinite(v)]


def curve_rows(folder: Path) -> list[dict[str, Any]]:
    """Read the complete lines of metrics.jsonl; the last one may be incomplete while a cell trains."""
    try:
        text = (folder / "metrics.jsonl").read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    try:
        return [json.loads(line) for line in text.split("\n")[:-1]]
    except ValueError as error:
        raise UserError(f"{folder}/metrics.jsonl is damaged; `ablate audit EXPERIMENT --mend` repairs it") from error


class CurveWriter:
    """Sends the new lines of a cell's metrics.jsonl while it trains; after a failure `record_cell` sends the rest."""

    def __init__(self, experiment: str, folder: Path, name: str):
        self.experiment, self.folder, self.name = experiment, folder, name
        self.client: MlflowClient | None = None
        self.run_id = ""
        self.earlier = claim.latest_attempt(folder)
        self.seen = "", 0  # current attempt, and bytes of its log
        self.lines = 0
        self.sent = 0  # lines; an attempt that resumes from a checkpoint begins with the earlier ones
        self.broken = False

    def send_new(self) -> tuple[str, int] | None:
        """Send new lines; return the attempt and the bytes of its log, or None before the attempt has begun."""
        attempt = claim.latest_attempt(self.folder)
        if attempt == self.earlier:
            return None
        try:
            whole, end, _ = (self.folder / "attempts" / attempt / "metrics.jsonl").read_bytes().rpartition(b"\n")
        except FileNotFoundError:  # not there yet, or just moved to the run folder
            return self.seen if self.seen[0] == attempt else (attempt, 0)
        lines = whole.splitlines()
        self.seen, self.lines = (attempt, len(whole + end)), len(lines)
        if self.lines > self.sent and not self.broken:
            self.broken = True  # stays set if sending fails
            with or_warning(f"the curves of {self.name} are sent when it is recorded"):
                self._send([json.loads(line) for line in lines[self.sent :]])
                self.broken = False
        return self.seen

    def _send(self, rows: list[Row]) -> None:
        """Send lines; the first call also creates the run, which replaces earlier runs of the cell, and its params."""
        params = dict[str, str]()
        if self.client is None:
            self.client, params = open_tracker(store.home()), params_of(self.folder)
            with writing():
                earlier = find_runs(self.client, self.experiment, "ablate.cell", self.folder.name)
                self.run_id = fresh_run(self.client, self.experiment, self.folder, earlier)
        log(self.client, self.run_id, rows, scores={}, params=params, tags={})
        self.sent += len(rows)


def record_grid(client: MlflowClient, experiment: str, document: dict[str, Any]) -> None:
    """Record grid.json, which says which cells make which section, as an artifact of the grid's own run.

    Two machines that record for the first time at once create a run each: the newest is read, and finished older ones
    are removed.
    """
    with writing():
        run, *older = grid_runs(client, experiment) or [
            client.create_run(experiment_id(client, experiment), tags=GRID, run_name="grid")
        ]
        remove_runs(client, [other for other in older if other.info.status == "FINISHED"])
        client.log_dict(run.info.run_id, document, "grid.json")
        if run.info.status != "FINISHED":
            client.set_terminated(run.info.run_id, "FINISHED")


def grid_runs(client: MlflowClient, experiment: str) -> list[Run]:
    """Return the runs with grid.json, newest first."""
    return find_runs(client, experiment, "ablate.kind", "grid")
