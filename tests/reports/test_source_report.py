"""The report that this project takes after: its own numbers, one seed each, and what they do not show."""

from pathlib import Path
from typing import Any

import pytest

from contrastive.config.experiment import Experiment
from reports.build import build
from tasks import record, tracking
from tests.recorded import SETTINGS, cell_folder

ACCURACY = "test.accuracy"
EMBEDDING = ("test.svm_accuracy", "test.knn_accuracy", "test.ari", "test.nmi")
MODELS = {"DeBERTa-V3-base": [0.94868], "DeBERTa-V3-rdrop": [0.95056], "DeBERTa-V3-scl": [0.94884]}
STAGES = {"One-stage": [0.95044], "Two-stage": [0.95120]}
VIEWS = {"SCL_OneView": [0.94636], "SCL_MultiView(R-Drop,other layer cls)": [0.94736]}
PIVOT = {(30, 0.2): 0.95100, (30, 0.5): 0.94972, (60, 0.2): 0.95124, (60, 0.5): 0.95068, (90, 0.2): 0.95084,
         (90, 0.5): 0.95080}  # fmt: skip
LORA = {
    "lora": [0.95025, 0.93015, 0.815761, 0.721010],
    "lora_k30_alpha0.2": [0.94890, 0.92465, 0.807832, 0.712066],
    "lora_k90_alpha0.25_nc10": [0.94890, 0.93205, 0.812332, 0.720072],
}
LAYERS = {
    "sentence_11": [0.9238, 0.9152, 0.7850, 0.6868],
    "sentence_2_5_8_11": [0.9220, 0.9286, 0.7942, 0.6957],
    "token_8_9_10_11": [0.9358, 0.9156, 0.7744, 0.6734],
    "token_4_5_6_7": [0.8902, 0.8586, 0.6502, 0.5418],
}


def rows(title: str, table: dict[str, list[float]], values: tuple[str, ...]) -> list[dict[str, Any]]:
    """With their folders on the disk; the first row is the baseline, as the source has it."""
    found = []
    for place, (label, numbers) in enumerate(table.items()):
        cell = f"{title}-{place}"
        cell_folder(cell, label, 0, dict(zip(values, numbers, strict=True)), count=25_000)
        found.append(
            {"label": label, "axes": {"loss": label}, "baseline": place == 0, "against": 0 if place else None}
            | {"data": "", "cells": [cell], "seeds": [0]}
        )
    return found


@pytest.fixture
def report(home: Path) -> dict[str, str]:
    parts = [
        ("Models", rows("models", MODELS, (ACCURACY,)), {"values": [ACCURACY]}),
        ("Stages", rows("stages", STAGES, (ACCURACY,)), {"values": [ACCURACY]}),
        ("Views", rows("views", VIEWS, (ACCURACY,)), {"values": [ACCURACY]}),
        ("Embeddings", rows("lora", LORA, EMBEDDING), {"values": list(EMBEDDING)}),
        ("Layers", rows("layers", LAYERS, EMBEDDING), {"values": list(EMBEDDING)}),
    ]
    pivot = rows("pivot", {f"K={k} · α={alpha}": [score] for (k, alpha), score in PIVOT.items()}, (ACCURACY,))
    for row, (k, alpha) in zip(pivot, PIVOT, strict=True):
        row["axes"] = {"k": k, "alpha": alpha}
    parts.append(("K and alpha", pivot, {"values": [ACCURACY], "rows": "k", "columns": "alpha"}))
    shows = [{"title": title, "show": {"table": table}} for title, _, table in parts]
    experiment = Experiment(name="source", seeds=(0,), sections=shows, **SETTINGS)
    document = {
        "experiment": experiment.model_dump(mode="json"),
        "sections": [
            {"title": s.title, "note": "", "show": s.show.model_dump(mode="json"), "rows": part}
            for s, (_, part, _) in zip(experiment.sections, parts, strict=True)
        ],
        "references": [],
        "failed": {},
        "stale_kept": [],
    }
    client = tracking.open_tracker(home)
    for _, part, _ in parts:
        for row in part:
            record.record_cell(client, "source", home / "runs" / row["cells"][0], [])
    record.record_grid(client, "source", document)
    folder = build("source", tracking.tracking_uri(home), home / "out").parent
    return {name: (folder / name).read_text(encoding="utf-8") for name in ("README.md", "README.zh.md")}


@pytest.mark.slow
def test_nothing_is_called_better_than_its_neighbour_and_it_says_why(report: dict[str, str]):
    text = report["README.md"]
    assert " is better than " not in text and " is worse than " not in text and "tied with the best are" not in text
    assert "one seed, so that no difference can be called real" in text
    for title in ("Models", "Stages", "Views", "K and alpha"):
        assert f"- {title}: there is one seed, so that no difference can be called real, in" in text
    assert "On 25000 test texts, one accuracy has a standard error of 0.0014" in text  # more than R-Drop gained
    zh = report["README.zh.md"]
    assert "只有一个随机种子，无法断言差异真实" in zh and "优于" not in zh.split("## ")[1]


@pytest.mark.slow
def test_its_numbers_stand_there_without_a_bold_one(report: dict[str, str]):
    text = report["README.md"]
    assert "| DeBERTa-V3-rdrop | 0.9506 |" in text and "| 60 | 0.9512 | 0.9507 |" in text
    assert "| lora (baseline) | 0.9503 | 0.9302 | 0.8158 | 0.7210 |" in text
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert len(tables) > 30 and not [line for line in tables if "**" in line]
