"""The grid's run in MLflow keeps how the texts of its pictures begin, and of no others."""

import hashlib
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from contrastive.cells import plan as plans
from contrastive.data import tokens
from contrastive.experiment import load as experiment
from reports.load import load
from tasks import sync, tracking

TEXTS = [f"text {number} " + ("a line\nand\u2028another " * number if number % 2 else "short") for number in range(60)]


def planned(home: Path, *, tsne: bool) -> plans.Plan:
    pd.DataFrame({"text": TEXTS, "label": ["good", "bad"] * 30}).to_csv(home / "texts.csv", index=False)
    settings = {
        "name": "small",
        "data": {"source": f"file:{home}/texts.csv", "test": 30, "max_length": 16},
        "encoder": {"model": "scratch:bert"},
        "seeds": [0],
        "sections": [{"title": "Lengths", "axes": {"max_length": [8, 16]}, "show": {"tsne": tsne}}],
        "evaluation": {"picture_points": 10},
    }
    (home / "small.yaml").write_text(yaml.safe_dump(settings))
    return plans.make_plan(experiment.load_experiment(home / "small.yaml"))


def recorded(home: Path, plan: plans.Plan) -> dict[int, str]:
    sync.sync(plan, plans.document(plan, []))
    return load("small", tracking.tracking_uri(home)).texts


def test_the_texts_with_the_smallest_ids_are_kept_and_come_back(home: Path):
    plan = planned(home, tsne=True)
    assert recorded(home, plan) == {}  # nothing was prepared yet
    folders = {tokens.prepare_tokens(cell.data, cell.encoder, home) for cell in plan.statuses}
    kept = recorded(home, plan)
    folder = folders.pop()
    smallest = sorted(np.load(folder / "test.digests.npy").tolist())[:10]
    texts = {int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]): text for text in TEXTS}
    assert {name: texts[name] if len(texts[name]) <= 200 else texts[name][:199] + "…" for name in smallest} == kept
    assert any(text.endswith("…") for text in kept.values()) and any(len(text) < 200 for text in kept.values())

    shutil.rmtree(home / "cache")
    assert recorded(home, plan) == kept  # nobody can tell any more: what is there stays
    for cell in plan.statuses:
        tokens.prepare_tokens(cell.data, cell.encoder, home)
    client = tracking.open_tracker(home)
    run = tracking.find_run(client, "small", "ablate.kind", "grid")
    assert run is not None
    client.delete_run(run.info.run_id)
    assert recorded(home, plan) == kept


def test_without_pictures_no_text_leaves_the_run_folders(home: Path):
    plan = planned(home, tsne=False)
    for cell in plan.statuses:
        tokens.prepare_tokens(cell.data, cell.encoder, home)
    assert recorded(home, plan) == {}
