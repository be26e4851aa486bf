"""Small run folders and a recorded grid with made-up numbers, for tests of recording and reports."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from contrastive.config.cell import Cell
from contrastive.config.experiment import Experiment
from contrastive.grid.plan import settings_by_name
from contrastive.runs import store
from contrastive.runs.recorded import Hardware, Provenance

SETTINGS: dict[str, Any] = {
    "data": {"source": "file:texts.csv", "train": 20, "test": 40},
    "encoder": {"model": "scratch:bert"},
    "training": {},
}
HARDWARE: dict[str, Any] = {"device": "cpu", "cpu": "a CPU", "cores": 2, "memory_gib": 4}
LABELS = ("negative", "positive")


def cell_folder(
    cell_id: str, label: str, seed: int, accuracy: float | dict[str, float], steps: int = 30, count: int = 40
) -> Path:
    """Write a finished run folder with an accuracy or several scores, measured on `count` test texts."""
    folder = store.run_folder(cell_id)
    cell = Cell(**SETTINGS, objective={"loss": "ce"}, seed=seed).model_dump(mode="json")
    store.write_json(folder / "config.json", {"id": cell_id, "name": f"{label} · seed {seed}", "cell": cell})
    rows = [
        {"step": s, "epoch": 0, "loss": 2 * math.exp(-s / 20) + 0.01 * seed, "gradient_norm": 1 + math.sin(s + seed)}
        for s in range(steps)
    ]
    store.write_atomic(folder / "metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    by_name = accuracy if isinstance(accuracy, dict) else {"test.accuracy": accuracy}
    common = {"higher_is_better": True, "count": count, "standard_error": 0.05}
    scores = [common | {"name": name, "value": value} for name, value in by_name.items()]
    store.write_json(folder / "scores.json", {"version": 1, "key": "k", "scores": scores})
    store.write_json(folder / "provenance.json", provenance(count))
    points = np.stack([np.cos(np.arange(40.0) + seed), np.sin(np.arange(40.0))], 1).astype(np.float32)
    texts = {"labels": np.arange(40) % 2, "ids": np.arange(40, dtype=np.uint64), "method": "t-SNE", "reason": ""}
    np.savez(folder / "picture.npz", x=points, **texts)
    store.mark_finished(folder, "DONE")
    return folder


def failed_folder(cell_id: str, label: str, seed: int, error: str, kind: str = "code") -> Path:
    folder = cell_folder(cell_id, label, seed, 0.5)
    for name in ("DONE", "scores.json", "picture.npz", "provenance.json"):
        (folder / name).unlink()
    store.write_json(folder / "FAILED.json", {"kind": kind, "error": error})
    return folder


def provenance(count: int = 40) -> dict[str, Any]:
    return {
        "commit": "abc123",
        "packages": {"python": "3.11", "torch": "2"},
        "hardware": HARDWARE,
        "wall_seconds": 6.0,
        "gpu_seconds": 0.0,
        "training_cpu_seconds": 6.0,
        "training_gpu_seconds": 0.0,
        "peak_memory_mib": 100,
        "class_counts": {split: dict.fromkeys(LABELS, count // 2) for split in ("train", "test")},
    }


def noted(count: int = 40) -> Provenance:
    return Provenance(**provenance(count) | {"hardware": Hardware(**HARDWARE)})


def grid(titles: tuple[str, ...] = ("Recipes",), labels: tuple[str, ...] = ("ce", "ce+supcon")) -> dict[str, Any]:
    """Return grid.json of an experiment named `small`, whose sections all compare the same rows over two seeds."""
    show = {"table": {"values": ["test.accuracy"]}, "tsne": True, "curves": True}
    sections = [{"title": title, "rows": {"ce": {"loss": "ce"}}, "show": show} for title in titles]
    cell = Cell(**SETTINGS, objective={"loss": "ce"}, seed=0).model_dump(mode="json", exclude={"seed"})
    rows = [
        {"label": label, "axes": {}, "baseline": i == 0, "data": "", "cells": [f"c{i}s0", f"c{i}s1"], "seeds": [0, 1]}
        | {"against": 0 if i else None, "settings": settings_by_name(cell)}
        for i, label in enumerate(labels)
    ]
    experiment = Experiment(name="small", seeds=(0, 1), sections=sections, **SETTINGS)
    return {
        "experiment": experiment.model_dump(mode="json"),
        "sections": [
            {"title": s.title, "note": "", "show": s.show.model_dump(mode="json"), "rows": rows}
            for s in experiment.sections
        ],
        "references": [{"name": "TF-IDF + logistic regression", "data": "", "scores": {"test.accuracy": 0.6}}],
        "failed": {},
    }
