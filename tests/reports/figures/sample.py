"""An experiment made by a formula: its grid, what MLflow would say of it, and comparisons of its rows."""

from typing import Any

import numpy as np
import pandas as pd

from contrastive.config.experiment import Experiment, Show
from contrastive.runs.recorded import Hardware, Provenance, RecordedGrid, RecordedRow, RecordedSection
from reports.study import CellRun, Kind, Picture, Results, study_of
from tests.recorded import SETTINGS

SEEDS = (0, 1, 2)
CLASSES = ("negative", "neutral", "positive")
TEXTS = 90
VALUES = ("test.accuracy", "test.macro_f1")
SHOWS: dict[str, Any] = {"tsne": True, "curves": True}


def row(number: int, label: str, axes: dict[str, str], seeds: tuple[int, ...] = SEEDS, **settings: str) -> RecordedRow:
    cells, against = [f"c{number}s{seed}" for seed in seeds], None if number == 0 else 0
    return RecordedRow(label, dict(axes), number == 0, "", cells, list(seeds), against, settings)


def number_of(cell: str) -> int:
    return int(cell[1:].split("s")[0])


def recipes(labels: tuple[str, ...] = ("ce", "rdrop", "ce+supcon")) -> RecordedSection:
    rows = [row(i, label, {"loss": label}, loss=label) for i, label in enumerate(labels)]
    return section("Recipes", rows, VALUES)


def pivot(ks: tuple[str, ...] = ("30", "60", "90"), alphas: tuple[str, ...] = ("0.2", "0.5")) -> RecordedSection:
    rows = [row(0, "ce", {}, loss="ce")]
    for k in ks:
        for alpha in alphas:
            axes = {"k": k, "alpha": alpha}
            rows.append(row(10 + len(rows), f"k={k} · α={alpha}", axes, loss="ce+supcon", **axes))
    return section("Token-level contrast, K × α", rows, ("test.accuracy",), {"rows": "k", "columns": "alpha"})


def many(count: int = 60) -> RecordedSection:
    labels = ["ce"] + [f"ce+supcon · topk_tokens · k={i} · temperature=0.{i:02d}" for i in range(1, count)]
    return section("Everything", [row(i, label, {"k": str(i)}, k=str(i)) for i, label in enumerate(labels)], VALUES)


def section(
    title: str, rows: list[RecordedRow], values: tuple[str, ...], axes: dict[str, str] | None = None
) -> RecordedSection:
    show = Show.model_validate(SHOWS | {"table": {"values": values} | (axes or {})})
    return RecordedSection(title, "", show, rows)


def results(*sections: RecordedSection, classes: tuple[str, ...] = CLASSES) -> Results:
    cells = sorted({cell for part in sections for row in part.rows for cell in row.cells})
    ids = np.arange(TEXTS, dtype=np.uint64) + np.uint64(2**63)  # beyond what a browser's numbers hold
    firsts = sorted({row.cells[0] for part in sections for row in part.rows})
    return Results(
        study_of(RecordedGrid(experiment([part.title for part in sections]), list(sections), [])),
        {cell: CellRun(cell, "finished", "", noted(cell, classes), f"run{cell}") for cell in cells},
        pd.DataFrame({cell: scores(cell) for cell in cells}).T,
        pd.concat([curves(cell) for cell in cells], ignore_index=True),
        {cell: picture(cell, ids, len(classes)) for cell in firsts},
        {name: Kind(True, 400) for name in VALUES},
        experiment_id="7",
        uri="sqlite:///mlflow.db",
    )


def experiment(titles: list[str], seeds: tuple[int, ...] = SEEDS) -> Experiment:
    return Experiment(
        name="small",
        seeds=seeds,
        sections=[{"title": title, "rows": {"ce": {"loss": "ce"}}} for title in titles],
        **SETTINGS,
    )


def noted(cell: str, classes: tuple[str, ...]) -> Provenance:
    seconds = 40 + 7.0 * (number_of(cell) % 11)
    counts = {split: dict.fromkeys(classes, 20) for split in ("train", "test")}
    known = (seconds, 0.0, Hardware("cpu", "a CPU", 2, 4), "abc", {"python": "3"}, 9)
    spent = {"training_cpu_seconds": seconds, "training_gpu_seconds": 0.0}
    return Provenance(*known, threads=1, processes=1, class_counts=counts, **spent)


def scores(cell: str) -> dict[str, float]:
    number, noise = number_of(cell), np.random.default_rng(hash_of(cell))
    return {"test.accuracy": 0.70 + 0.012 * (number % 7) + 0.004 * noise.normal(),
            "test.macro_f1": 0.66 - 0.02 * (number % 5) + 0.01 * noise.normal()}  # fmt: skip


def hash_of(cell: str) -> int:
    return int.from_bytes(cell.encode(), "big") % 2**32


def curves(cell: str) -> pd.DataFrame:
    number, noise = number_of(cell), np.random.default_rng(hash_of(cell))
    steps = np.arange(60)
    loss = (1 + number % 5) * np.exp(-steps / 20) + 0.05 * noise.normal(size=60)
    keys = {"loss": loss, "gradient_norm": 1 + 0.3 * noise.random(60), "gradient_norm.ce": 0.5 + 0.2 * noise.random(60)}
    if number > 1:
        norm = 0.02 * (1 + number) * np.exp(-steps / 30)
        keys |= {"excess.supcon": np.maximum(loss, 0), "gradient_norm.supcon": norm}
    frames = [pd.DataFrame({"cell": cell, "key": key, "step": steps, "value": y}) for key, y in keys.items()]
    terms = [frame[frame["step"] % 20 == 0] if "norm." in frame["key"].iloc[0] else frame for frame in frames]
    return pd.concat(terms, ignore_index=True)


def picture(cell: str, ids: np.ndarray, classes: int) -> Picture:
    noise, labels = np.random.default_rng(hash_of(cell)), np.arange(len(ids)) % classes
    angle = 2 * np.pi * labels / classes + number_of(cell)
    places = 12 * np.stack([np.cos(angle), np.sin(angle)], 1) + 4 * noise.normal(size=(len(ids), 2))
    return Picture(places.astype(np.float32), labels, ids)
