"""A worker that has trained many cells gives the numbers of a fresh process, to the bit."""

import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from contrastive.config.cell import Cell
from contrastive.config.evaluation import Evaluation
from contrastive.config.experiment import Resources
from contrastive.grid.identity import cell_id, identity
from contrastive.runs import store
from contrastive.stages.request import Asked
from tasks import engines, worker_calls
from tests.chaos import grid

LAPS = 5
FRESH = (0, 9)  # of a lap, compared with a process that never trained anything else
KINDS: list[tuple[dict[str, Any], dict[str, Any], float]] = [  # the objective, the training, the dropout
    ({"loss": "ce"}, {"accumulate": 2}, 0.1),
    ({"loss": "ce+supcon", "view": "topk_tokens", "k": 3}, {"precision": "bf16"}, 0.3),
    ({"loss": "rdrop", "view": "one_stage"}, {"threads": 2}, 0.5),
    ({"loss": "simcse"}, {"micro_batch": 3}, 0.1),
    ({"loss": "moco", "view": "momentum", "queue": 8}, {}, 0.1),
    ({"loss": "byol"}, {"precision": "bf16"}, 0.0),
    ({"loss": "swav"}, {}, 0.1),
    ({"loss": "sccl", "clusters": 3}, {}, 0.2),
    ({"loss": "ce+supcon", "view": "eda"}, {"schedule": "cosine"}, 0.1),
    ({"loss": "clear+mlm"}, {}, 0.1),
]


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[Cell]:
    """Ten that leave as much as they can behind: queues, slow copies, dropout, threads, precision, GradCache."""
    texts = grid.write(tmp_path_factory.mktemp("texts")).parent / "texts.csv"
    sizes = {"layers": 1, "hidden": 16, "heads": 2, "vocabulary": 300}
    return [
        Cell(
            data={"source": f"file:{texts}", "train": 16, "validation": 8, "test": 8, "max_length": 12},
            encoder={"model": "scratch:bert", "scratch": sizes, "dropout": dropout},
            objective=objective,
            training={"epochs": 1, "batch_size": 8, "head_lr": 1e-2, "encoder_lr": 1e-3} | training,
            seed=seed,
        ).canonical()
        for seed, (objective, training, dropout) in enumerate(KINDS)
    ]


HEAD_ALONE = Evaluation(metrics=("accuracy",))  # of so few texts nothing can be cross-validated


def train_in(home: Path, cell: Cell) -> dict[str, Any] | None:
    os.environ["ABLATE_HOME"] = str(home)
    return worker_calls.train(Asked(cell, "a cell", 100, HEAD_ALONE), cell_id(identity(cell)))


def test_the_fiftieth_cell_of_a_worker_has_the_numbers_of_a_fresh_process(
    cells: list[Cell], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path))
    fresh = {place: begin(tmp_path / "fresh" / str(place), cells[place]) for place in FRESH}
    with engines.start("local", Resources(slots=1), threads=1) as engine:
        for lap, (place, cell) in product(range(LAPS), enumerate(cells)):
            report = engine.run("train", train_in, tmp_path / str(lap), cell)
            assert report is None, (place, report)
    for place, cell in enumerate(cells):
        numbers = [trained(tmp_path / str(lap) / "runs" / cell_id(identity(cell))) for lap in range(LAPS)]
        assert numbers == [numbers[0]] * LAPS, cell.objective.loss
        if place in fresh:
            assert fresh[place].wait(120) == 0
            assert trained(tmp_path / "fresh" / str(place)) == numbers[-1], cell.objective.loss


def begin(folder: Path, cell: Cell) -> subprocess.Popen[bytes]:
    """A process of its own, as `ablate cell` names it."""
    config = folder.with_suffix(".json")
    store.write_json(config, {"cell": cell.model_dump(mode="json"), "evaluation": HEAD_ALONE.model_dump(mode="json")})
    environment = os.environ | {"ABLATE_HOME": str(folder.with_suffix(".home")), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-m", "contrastive.stages.job", str(config), str(folder)], env=environment)


def trained(folder: Path) -> list[bytes | str]:
    files = [folder / name for name in ("checkpoint/weights.safetensors", "embeddings.npz", "predictions.npz")]
    return [*(file.read_bytes() for file in files if file.exists()), str(grid.curve(folder))]
