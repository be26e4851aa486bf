"""`python -m benchmarks.gpu`: each part runs; a part that fails or is late ends with a row that says so."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from benchmarks import gpu
from benchmarks.gpu_adapters import Cells, batches_of, trained
from benchmarks.gpu_parts import PARTS
from flows import gpu_check
from flows.gpu_check import TINY, Sizes

ROOT = Path(__file__).parents[2]


@pytest.mark.full
def test_all_parts_run_in_small_sizes(tmp_path: Path):
    command = [sys.executable, "-m", "benchmarks.gpu", "--quick", "--minutes", "10", "--into", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=900)
    tables = json.loads((tmp_path / "gpu.json").read_text())
    assert list(tables) == ["machine", *PARTS]
    errors = {row["error"] for rows in tables.values() for row in rows if "error" in row}
    assert {error for error in errors if "in 2 processes, one on each GPU" not in error} <= {"needs a GPU"}
    equal = [row["equal bits"] for row in tables["modes"] if "equal bits" in row]
    assert equal == [True, True]
    apart = {row["name"]: row.get("relative difference of the last loss") for row in tables["sharding"]}
    assert apart["FSDP"] < 1e-5
    assert tables["verdicts"][0]["name"] == "trained twice: 4 of 4 cells have equal bits"
    text = (tmp_path / "gpu.md").read_text()
    assert all(f"## {name}: {part.title}" in text for name, part in PARTS.items())


def test_a_late_part_is_stopped_and_a_broken_one_says_why():
    late = list(gpu.rows_of("speed", True, 0.5))
    assert late[-1]["error"] == "not done within its 0 s"
    (broken,) = gpu.rows_of("no such part", True, 60)
    assert broken["error"].startswith("ended with 1: ") and "KeyError: 'no such part'" in broken["error"]


def test_a_mode_that_fails_is_not_said_to_repeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ABLATE_HOME", "")  # put back after the modes have set it
    wrong = {"training": {"precision": "fp3"}}
    rows = list(gpu_check.modes(Sizes(True), {"fp3": wrong, "fp3 again": wrong}, tmp_path))
    assert all("precision" in row["error"] and "equal bits" not in row for row in rows[:2])


def test_adapters_trained_as_one_product_give_the_losses_of_each_alone():
    together = losses_of(range(3))
    alone = torch.cat([losses_of(range(cell, cell + 1)) for cell in range(3)], dim=1)
    assert torch.allclose(together, alone, atol=1e-6)
    assert (together[0] - together[-1]).abs().min() > 1e-4  # each learns


def losses_of(cells: range) -> Tensor:
    model = Cells(cells, TINY).eval()  # without dropout, which draws other numbers for more cells
    return torch.stack(list(trained(model, batches_of(cells, 6, 8, 12, TINY["vocabulary"]))))
