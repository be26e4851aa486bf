"""Everything a report needs, read from MLflow and from nowhere else."""

import json
import logging
import re
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from mlflow import MlflowClient

from contrastive.errors import UserError
from reports import mlflow_runs
from reports.mlflow_runs import Artifacts, Held

logger = logging.getLogger(__name__)

CELLS = ["cell", "name", "status", "error", "provenance", "run_id", "place", "params", "evaluation"]
MEASURED = ["cell", "score", "value", "higher_is_better", "count", "unit", "standard_error"]
SCORE = re.compile(r"(.+/)?(test|validation|train|transfer)\.")  # the names of scores, and of nothing else
ONE_POINT = 1e-3  # spread of coordinates in which nothing can be seen: t-SNE's own unit is 1, and it begins at 1e-4
LARGEST = 1.7e308  # what MLflow's databases make of infinity is larger


@dataclass(frozen=True, repr=False)  # which would be all that was measured
class Results:
    """`cells`: a row a cell (name, status, error, provenance, run_id, place of its files, params, evaluation).
    `scores`: cell × score, as MLflow holds them. `curves`: cell, key, step, value. `measured`: cell, score, and what
    scores.json says of it. `texts`: content id → the beginning of a text that a picture shows.
    """

    grid: dict[str, Any]
    cells: pd.DataFrame
    scores: pd.DataFrame
    curves: pd.DataFrame
    tsne: dict[str, dict[str, np.ndarray]]
    directions: dict[str, dict[str, Any]]  # score name → higher_is_better and count
    units: dict[str, dict[str, str]]  # cell → score name → unit
    measured: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=MEASURED))
    texts: dict[int, str] = field(default_factory=dict)
    experiment_id: str = ""
    uri: str = ""
    artifacts: Artifacts | None = None
    notes: dict[str, dict[str, str]] = field(default_factory=dict)  # cell → what was left out → why

    def each(self, cell: str, score: str) -> np.ndarray | None:
        """What each text adds to a score of a cell, read when it is asked for."""
        return self._stored(cell, score)

    def ids(self, cell: str, split: str) -> np.ndarray | None:
        """The content ids of the texts of `each`, in its order."""
        return self._stored(cell, f"{split}.ids")

    def marks(self, cell: str) -> dict[str, int]:
        """A checksum of each array of `each` and `ids`, read without the arrays: equal ones have equal marks."""
        path = self._file(cell, "examples.npz")
        if path is None:
            return {}
        with zipfile.ZipFile(path) as arrays:
            return {entry.filename.removesuffix(".npy"): entry.CRC for entry in arrays.infolist()}

    def code_files(self, cell: str) -> dict[str, str]:
        """Module → digest of the code that computed a cell; empty for a run of before that was noted."""
        path = self._file(cell, "config.json")
        return {} if path is None else json.loads(path.read_bytes()).get("files", {})

    @cached_property
    def entries(self) -> dict[str, dict[str, Any]]:
        """Each row of `cells` as a dict, to look cells up one by one."""
        columns = [column for column in CELLS if column in self.cells.columns]
        rows = zip(*(self.cells[column].tolist() for column in columns), strict=True)
        return dict(
            zip(self.cells.index.tolist(), (dict(zip(columns, row, strict=True)) for row in rows), strict=False)
        )

    @cached_property
    def mismatched(self) -> dict[str, list[str]]:
        """Finished cells of which MLflow holds other scores than scores.json says, and which."""
        ours = self.measured.pivot(index="cell", columns="score", values="value")
        names = sorted({*ours.columns, *filter(SCORE.match, self.scores.columns)})
        finished = self.cells.index[self.cells["status"] == "finished"].tolist()
        left, right = (finite(frame.reindex(finished, columns=names).to_numpy(float)) for frame in (ours, self.scores))
        different = (left != right) & ~(np.isnan(left) & np.isnan(right))
        return {
            finished[row]: [names[c] for c in np.flatnonzero(different[row])]
            for row in np.flatnonzero(different.any(1))
        }

    def examples(self, cell: str, names: Iterable[str]) -> tuple[dict[str, np.ndarray], dict[str, int]]:
        """Some of the arrays of `each`, and the marks of the ids, at one reading."""
        path = self._file(cell, "examples.npz")
        if path is None:
            return {}, {}
        with np.load(path) as arrays:
            held = arrays.zip.NameToInfo
            marks = {name.removesuffix(".npy"): held[name].CRC for name in held if name.endswith(".ids.npy")}
            return {name: arrays[name] for name in names if f"{name}.npy" in held}, marks

    @cached_property
    def by_score(self) -> dict[str, dict[str, float]]:
        """Score → cell → value, to look values up one by one."""
        cells = self.scores.index.tolist()
        return {name: dict(zip(cells, self.scores[name].tolist(), strict=True)) for name in self.scores.columns}

    def _stored(self, cell: str, name: str) -> np.ndarray | None:
        path = self._file(cell, "examples.npz")
        if path is None:
            return None
        with np.load(path) as arrays:
            return arrays.get(name)

    def _file(self, cell: str, name: str) -> Path | None:
        """A file of a finished cell; of what another one holds, nothing is to be shown."""
        run = self.entries.get(cell)
        if self.artifacts is None or run is None or run["status"] != "finished":
            return None
        return self.artifacts.path(run["run_id"], run["place"], name)


def load(experiment: str, uri: str) -> Results:
    client = MlflowClient(tracking_uri=uri)
    found = client.get_experiment_by_name(experiment)
    if found is None:
        raise UserError(f"MLflow holds no experiment {experiment}: run it first, or check MLFLOW_TRACKING_URI")
    if found.lifecycle_stage == "deleted":
        raise UserError(f"the MLflow experiment {experiment} was deleted: restore it in the MLflow UI, or run it anew "
                        "under another name")  # fmt: skip
    held, artifacts = mlflow_runs.read(client, found.experiment_id), Artifacts(client)
    recorded = next((run for run in held if run.tags.get("ablate.kind") == "grid"), None)
    if recorded is None:
        raise UserError(
            f"the MLflow experiment {experiment} holds no grid yet: `ablate run` or `ablate sync` records it"
        )
    grid = document(artifacts, recorded, "grid.json")
    by_cell = {run.tags.get("ablate.cell", ""): run for run in reversed(held)}  # the newest, as recording has it
    wanted = {cell for section in grid["sections"] for row in section["rows"] for cell in row["cells"]}
    chosen = {cell: by_cell[cell] for cell in sorted(wanted) if cell in by_cell}
    documents = {cell: measured_of(artifacts, run) for cell, run in chosen.items()}
    scores = {cell: found.get("scores", []) for cell, found in documents.items()}
    return Results(
        grid,
        pd.DataFrame([describe(artifacts, cell, run) for cell, run in chosen.items()], columns=CELLS).set_index("cell"),
        wide({cell: run.metrics for cell, run in chosen.items()}),
        curves(client, grid, chosen),
        pictures(artifacts, grid, chosen),
        {score["name"]: score for found in scores.values() for score in found},
        {cell: {score["name"]: score.get("unit", "") for score in found} for cell, found in scores.items()},
        measured(scores),
        {int(name): text for name, text in document(artifacts, recorded, "texts.json").items()},
        found.experiment_id,
        uri,
        artifacts,
        {cell: notes for cell, found in documents.items() if (notes := found.get("notes"))},
    )


def describe(artifacts: Artifacts, cell: str, run: Held) -> tuple[Any, ...]:
    status, error = run.tags.get("ablate.status", "running"), run.tags.get("ablate.error", "")
    provenance, evaluation = document(artifacts, run, "provenance.json"), run.tags.get("ablate.evaluation", "")
    return cell, run.name, status, error, provenance, run.run_id, run.place, run.params, evaluation


def wide(metrics: dict[str, dict[str, float]]) -> pd.DataFrame:
    """A row a cell and a column a metric, by name."""
    return pd.DataFrame.from_dict(metrics, orient="index", dtype=float).sort_index(axis=1)


def measured(scores: dict[str, list[dict[str, Any]]]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            (cell, score["name"], *(score.get(name) for name in MEASURED[2:]))
            for cell, found in scores.items()
            for score in found
        ],
        columns=MEASURED,
    )


def finite(values: np.ndarray) -> np.ndarray:
    """Infinity as MLflow's databases hold it."""
    return np.where(np.abs(values) > LARGEST, np.copysign(LARGEST, values), values)


def curves(client: MlflowClient, grid: dict[str, Any], chosen: dict[str, Held]) -> pd.DataFrame:
    """Curves of the sections that show them."""
    shown = {chosen[cell].run_id: cell for cell in sorted(cells_of(grid, "curves")) if cell in chosen}
    points = mlflow_runs.curves(client, [chosen[cell] for cell in shown.values()])
    points.insert(0, "cell", points.pop("run_id").map(shown))
    return points.sort_values(["cell", "key", "step"], ignore_index=True)


def pictures(artifacts: Artifacts, grid: dict[str, Any], chosen: dict[str, Held]) -> dict[str, dict[str, np.ndarray]]:
    """t-SNE coordinates of each row's first seed, for the sections that show them."""
    firsts = {row["cells"][0] for section in grid["sections"] if section["show"]["tsne"] for row in section["rows"]}
    found = {}
    for cell in sorted(firsts & chosen.keys()):
        if (path := file(artifacts, chosen[cell], "picture.npz")) is not None:
            found[cell] = picture(path)
    return found


def picture(path: Path) -> dict[str, Any]:
    """The arrays of a picture; without points, and with the reason, where they show nothing or cannot be read."""
    arrays: dict[str, Any]
    try:
        with np.load(path) as file:
            arrays = {"reason": "", **file}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        logger.warning("%s cannot be read: %s", path, error)
        arrays = {"x": np.zeros((0, 2)), "reason": f"{path.name} cannot be read", "method": "picture"}
    places, reason = arrays["x"], arrays["reason"]
    if not np.isfinite(places).all():
        reason = "its coordinates are not finite numbers"
    elif len(places) and places.std(0).max() <= ONE_POINT:
        reason = f"all {len(places)} texts lie on one point"
    if str(reason):
        return arrays | {"x": places[:0], "labels": np.zeros(0, int), "ids": np.zeros(0, np.uint64), "reason": reason}
    return arrays


def measured_of(artifacts: Artifacts, run: Held) -> dict[str, Any]:
    """What is known of the scores of a finished cell, and why some were left out."""
    finished = run.tags.get("ablate.status") == "finished"
    return document(artifacts, run, "scores.json") if finished else {}


def cells_of(grid: dict[str, Any], shown: str) -> Iterable[str]:
    sections = [section for section in grid["sections"] if section["show"][shown]]
    return {cell for section in sections for row in section["rows"] for cell in row["cells"]}


def document(artifacts: Artifacts, run: Held, name: str) -> dict[str, Any]:
    """The JSON of an artifact; empty when the run has none of that name."""
    path = file(artifacts, run, name)
    return {} if path is None else json.loads(path.read_bytes())


def file(artifacts: Artifacts, run: Held, name: str) -> Path | None:
    return artifacts.path(run.run_id, run.place, name)
