"""Train small cells of made-up texts on a GPU, in each mode: for `ablate doctor --gpu` and `python -m benchmarks.gpu`.

Without a GPU the cells train on the CPU, except for what needs a GPU. Nothing but `contrastive` is used, so that this
also runs on a machine without Prefect and MLflow.
"""

import json
import os
import statistics
import string
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

Row = dict[str, Any]
MINILM = {"layers": 6, "hidden": 384, "heads": 12, "vocabulary": 4000}
TINY = {"layers": 2, "hidden": 32, "heads": 2, "vocabulary": 300}
MODES: dict[str, Row] = {
    "fp32": {},
    "fp32 again": {},
    "bf16": {"training": {"precision": "bf16"}},
    "bf16 again": {"training": {"precision": "bf16"}},
    "fp16": {"training": {"precision": "fp16"}},
    "LoRA": {"encoder": {"tune": {"lora": {"r": 8}}}, "training": {"encoder_lr": 1e-2}},
    "frozen blocks with dropout": {"encoder": {"tune": {"last_blocks": 1}}},
    "frozen blocks from the store": {"encoder": {"tune": {"last_blocks": 1, "frozen_dropout": False}}},
}
NEEDS_GPU = "needs a GPU"


@dataclass(frozen=True)
class Sizes:
    """The sizes of cells: those that a GPU trains in seconds, or tiny ones."""

    quick: bool

    def encoder(self, kind: str = "bert", shape: Row | None = None, **settings: Any) -> Row:
        return {"model": f"scratch:{kind}", "scratch": TINY if self.quick else shape or MINILM} | settings

    def of(self, full: int, quick: int) -> int:
        return quick if self.quick else full


def modes(sizes: Sizes, given: dict[str, Row], folder: Path) -> Iterator[Row]:
    """Train one cell in each mode; a mode named `again` must give the bits of the one before it."""
    import torch

    length = sizes.of(510, 16)
    source = texts(folder / "texts.csv", sizes.of(400, 80), length)
    before = ""
    for name, settings in given.items():
        if name == "fp16" and not torch.cuda.is_available():
            yield {"name": name, "error": NEEDS_GPU}
            continue
        os.environ["ABLATE_HOME"] = str(folder / name)
        row = tried(name, partial(trained_mode, sizes, source, length, settings))
        digest = row.pop("weights", "")
        if name.endswith("again") and digest and before:
            row["equal bits"] = digest == before
        before = digest
        yield row


def trained_mode(sizes: Sizes, source: Path, length: int, settings: Row) -> Row:
    options: Row = {"encoder": {}, "training": {}} | settings
    encoder, training = sizes.encoder(**options.pop("encoder")), options.pop("training")
    folder = trained(cell(source, encoder, length, sizes.of(320, 32), training, **options))
    return described(folder) | {"weights": weights(folder)}


def texts(file: Path, count: int, words: int) -> Path:
    """Write made-up texts of two classes, whose words differ in part; most have exactly so many words."""
    letters, spelling, generator = list(string.ascii_lowercase), np.random.default_rng(0), np.random.default_rng(0)
    vocabulary = np.array(["".join(spelling.choice(letters, 5)) for _ in range(2000)])
    lines = ["text,label"]
    for number in range(count):
        drawn = generator.integers(0, 1000, words) + 500 * (number % 2)
        length = words if number % 4 else max(4, words // 2)
        lines.append(f"{' '.join(vocabulary[drawn[:length]])},{'ab'[number % 2]}")
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


def trained(cell: Any) -> Path:
    """Train a cell as a grid does; return its folder."""
    from contrastive.grid.identity import cell_id, identity
    from contrastive.runs import store
    from contrastive.training.job import TrainRequest
    from contrastive.training.train_cell import train_cell

    folder = store.run_folder(cell_id(identity(cell)))
    train_cell(folder, TrainRequest(cell, "a cell", 10**9))
    return folder


def described(folder: Path) -> Row:
    """Return what a trained cell's files say of it."""
    provenance = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    lines = steps_of(folder)
    memory = int(max(line.get("memory_mib", 0) for line in lines))
    row: Row = {
        "seconds": provenance["wall_seconds"],
        "steps": len(lines),
        "texts/s": statistics.median(line["examples_per_second"] for line in lines),
        "first loss": lines[0]["loss"],
        "last loss": lines[-1]["loss"],
        "peak MiB": memory or provenance["peak_memory_mib"],
    }
    if provenance["micro_batch"]:
        row["micro-batch"] = provenance["micro_batch"]
    return row


def steps_of(folder: Path) -> list[Row]:
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def weights(folder: Path) -> str:
    from contrastive.runs import store

    return store.digest_file(folder / "checkpoint" / "weights.safetensors")


def tried(name: str, work: Callable[[], Row]) -> Row:
    """Return the row of some work, with its error if it fails."""
    try:
        return {"name": name} | work()
    except Exception as error:
        traceback.print_exc()
        return {"name": name, "error": f"{type(error).__name__}: {error}"[-600:]}
