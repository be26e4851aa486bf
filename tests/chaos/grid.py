"""The small real grid that everything here is done to: some cells of one process, one of two, of seconds each."""

import hashlib
import json
import random
from pathlib import Path
from typing import Any

from contrastive.runs import store

WORDS = ["good", "bad", "fine", "poor", "sunny", "rainy", "happy", "sad", "quick", "slow", "bright", "dark"]
CHECKPOINT_EVERY = 10
FILES = (
    "config.json",
    "checkpoint/weights.safetensors",
    "embeddings.npz",
    "predictions.npz",
    "scores.json",
    "picture.npz",
)
CLOCK = ("examples_per_second", "tokens_per_second", "memory_mib")


def write(folder: Path, **changes: Any) -> Path:
    """An experiment file, with its texts beside it; `changes` are of whole settings."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = random.Random(0)
    rows = [
        f"{' '.join(drawn.choice(WORDS[i % 2 :: 2]) for _ in range(2 + i % 7))} {i},{'ab'[i % 2]}" for i in range(400)
    ]
    (folder / "texts.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    alone = {"title": "Alone", "axes": {"loss": ["ce", "ce+supcon"]}, "baseline": {}}
    shared = {"title": "Two processes", "base": {"processes": 2}, "baseline": {}}
    experiment = {
        "name": "chaos",
        "data": {
            "source": f"file:{folder / 'texts.csv'}",
            "train": 160,
            "validation": 16,
            "test": 64,
            "max_length": 16,
        },
        "encoder": {"model": "scratch:bert", "scratch": {"layers": 2, "hidden": 32, "heads": 2, "vocabulary": 300}},
        "training": {"epochs": 6, "batch_size": 8, "head_lr": 1e-3, "encoder_lr": 1e-3},
        "evaluation": {"metrics": ["accuracy", "knn"]},
        "seeds": [0],
        "sections": [alone, shared],
        "resources": {"checkpoint_every": CHECKPOINT_EVERY},
    }
    path = folder / f"{changes.get('name', 'chaos')}.yaml"
    path.write_text(json.dumps(experiment | changes))  # JSON is YAML
    return path


def results(home: Path) -> dict[str, dict[str, str]]:
    """What every finished cell of a home holds, to the bit; without what the clock says."""
    return {run.name: numbers(run) for run in sorted((home / "runs").glob("*")) if store.finished(run)}


def numbers(run: Path) -> dict[str, str]:
    found = {name: hashlib.sha256((run / name).read_bytes()).hexdigest() for name in FILES}
    return found | {"curve": json.dumps(curve(run))}


def curve(run: Path) -> list[dict[str, float]]:
    rows = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [{name: value for name, value in row.items() if name not in CLOCK} for row in rows]
