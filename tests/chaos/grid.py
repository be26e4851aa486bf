"""The small grid that everything here is done to, cells of one and of two processes, and what a home holds of it."""

import hashlib
import json
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from contrastive.runs import claim, store

WORDS = ["good", "bad", "fine", "poor", "sunny", "rainy", "happy", "sad", "quick", "slow", "bright", "dark"]
CHECKPOINT_EVERY = 10
FILES = ("config.json", "checkpoint/weights.safetensors", "embeddings.npz", "predictions.npz", "scores.json")
FILES += ("picture.npz",)
CLOCK = ("examples_per_second", "tokens_per_second", "memory_mib")


def write(folder: Path, **changes: Any) -> Path:
    """An experiment file, with its texts beside it; `changes` are of whole settings."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = random.Random(0)
    rows = [
        f"{' '.join(drawn.choice(WORDS[i % 2 :: 2]) for _ in range(2 + i % 7))} {i},{'ab'[i % 2]}" for i in range(400)
    ]
    texts = folder / "texts.csv"
    texts.write_text("\n".join(["text,label", *rows]) + "\n")
    experiment = {
        "name": "chaos",
        "data": {"source": f"file:{texts}", "train": 160, "validation": 16, "test": 64, "max_length": 16},
        "encoder": {"model": "scratch:bert", "scratch": {"layers": 2, "hidden": 32, "heads": 2, "vocabulary": 300}},
        "training": {"epochs": 6, "batch_size": 8, "head_lr": 1e-3, "encoder_lr": 1e-3},
        "evaluation": {"metrics": ["accuracy", "knn"]},
        "seeds": [0],
        "sections": [
            {"title": "Alone", "rows": {"ce": {"loss": "ce"}, "SupCon": {"loss": "ce+supcon"}}},
            {"title": "Two processes", "rows": {"ce": {"processes": 2}}},
        ],
        "resources": {"checkpoint_every": CHECKPOINT_EVERY},
    }
    path = folder / f"{changes.get('name', 'chaos')}.yaml"
    path.write_text(json.dumps(experiment | changes))  # JSON is YAML
    return path


def results(home: Path) -> dict[str, dict[str, str]]:
    """What every finished cell of a home holds, to the bit; without what the clock says."""
    return {run.name: numbers(run) for run in sorted((home / "runs").glob("*")) if store.finished(run)}


def numbers(run: Path) -> dict[str, str]:
    digests = {name: hashlib.sha256((run / name).read_bytes()).hexdigest() for name in FILES}
    steps = map(json.loads, lines(run))
    return digests | {"curve": json.dumps([{k: v for k, v in step.items() if k not in CLOCK} for step in steps])}


def lines(folder: Path) -> list[str]:
    log = folder / "metrics.jsonl"
    return log.read_text(encoding="utf-8").split("\n")[:-1] if log.exists() else []


def trainings(run: Path) -> int:
    return sum(known["stage"] == "train" and known.get("outcome") == "done" for known in claim.attempts(run))


def left_in_the_store(home: Path) -> list[str]:
    """Cells that somebody holds, and MLflow runs that say RUNNING, where nothing runs any more."""
    held = [run.name for run in home.glob("runs/*") if claim.is_held(run)]
    with closing(sqlite3.connect(home / "mlflow.db")) as database:
        query = "select name from runs where status = 'RUNNING' and lifecycle_stage = 'active'"
        return held + [name for (name,) in database.execute(query)]
