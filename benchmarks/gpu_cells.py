"""Cells of made-up texts and random encoders, and what their run folders say; for `python -m benchmarks.gpu`."""

import json
import os
import statistics
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Row = dict[str, Any]
MINILM = {"layers": 6, "hidden": 384, "heads": 12, "vocabulary": 4000}
BASE = {"layers": 12, "hidden": 768, "heads": 12, "vocabulary": 4000}
TINY = {"layers": 2, "hidden": 32, "heads": 2, "vocabulary": 300}


@dataclass(frozen=True)
class Sizes:
    """How large a part's cells are."""

    quick: bool

    def encoder(self, kind: str = "bert", shape: Row | None = None, **settings: Any) -> Row:
        return {"model": f"scratch:{kind}", "scratch": TINY if self.quick else shape or MINILM} | settings

    def of(self, full: int, quick: int) -> int:
        return quick if self.quick else full


def texts(file: Path, count: int, words: int) -> Path:
    """Write made-up texts of two classes, whose words differ in part; most have exactly so many words."""
    generator = np.random.default_rng(0)
    vocabulary = np.array(["".join(generator.choice(list("abcdefghijklmnopqrstuvwxyz"), 5)) for _ in range(2000)])
    lines = ["text,label"]
    for number in range(count):
        own = generator.integers(0, 1000, words) + 500 * (number % 2)
        length = words if number % 4 else max(4, words // 2)
        lines.append(f"{' '.join(vocabulary[own[:length]])},{'ab'[number % 2]}")
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def cell(file: Path, encoder: Row, length: int, train: int, training: Row, seed: int = 0, **objective: Any) -> Any:
    from contrastive.config.cell import Cell, Data, Encoder, Training
    from contrastive.config.objective import Objective

    return Cell(
        data=Data(source=f"file:{file}", train=train, test=32, max_length=length),
        encoder=Encoder.model_validate(encoder),
        objective=Objective(**{"loss": "ce", **objective}),
        training=Training(**{"epochs": 1, "batch_size": train // 10, "head_lr": 1e-3, "encoder_lr": 1e-4, **training}),
        seed=seed,
    ).canonical()


@contextmanager
def home() -> Iterator[Path]:
    """Give run folders and caches a temporary place."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ABLATE_HOME"] = folder
        yield Path(folder)


def trained(asked: Any) -> Path:
    """Train a cell as a grid does; return its folder."""
    from contrastive.grid.identity import cell_id, identity
    from contrastive.runs import store
    from contrastive.training.job import TrainRequest
    from contrastive.training.train_cell import train_cell

    folder = store.run_folder(cell_id(identity(asked)))
    train_cell(folder, TrainRequest(asked, "a cell", 10**9))
    return folder


def described(folder: Path) -> Row:
    """Return what a trained cell's files say of it."""
    provenance = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    row: Row = {
        "seconds": provenance["wall_seconds"],
        "steps": len(lines),
        "texts/s": statistics.median(line["examples_per_second"] for line in lines),
        "first loss": lines[0]["loss"],
        "last loss": lines[-1]["loss"],
        "peak MiB": (provenance["peak_memory_bytes"] or 0) // 2**20,
    }
    if provenance["micro_batch"]:
        row["micro-batch"] = provenance["micro_batch"]
    if provenance["energy_joules"]:
        row["joules"] = provenance["energy_joules"]["gpu"]
    return row


def weights(folder: Path) -> str:
    from contrastive.runs import store

    return store.digest_file(folder / "checkpoint" / "weights.safetensors")


def tried(name: str, work: Callable[[], Row]) -> Row:
    """Return the row of some work, with its error if it fails."""
    try:
        return {"": name} | work()
    except Exception as error:
        traceback.print_exc()
        return {"": name, "error": f"{type(error).__name__}: {error}"[-600:]}
