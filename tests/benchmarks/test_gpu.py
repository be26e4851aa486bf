"""`python -m benchmarks.gpu`: each part runs; a part that fails or is late ends with a row that says so."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import gpu
from benchmarks.gpu_parts import PARTS

ROOT = Path(__file__).parents[2]


@pytest.mark.full
def test_all_parts_run_in_small_sizes(tmp_path: Path):
    command = [sys.executable, "-m", "benchmarks.gpu", "--quick", "--minutes", "10", "--into", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=900)
    found = json.loads((tmp_path / "gpu.json").read_text())
    assert list(found) == ["machine", *PARTS]
    errors = {row["error"] for rows in found.values() for row in rows if "error" in row}
    assert errors <= {"needs a GPU"}
    equal = [row["equal bits"] for row in found["modes"] if "equal bits" in row]
    assert equal == [True, True]
    assert found["verdicts"][0][""] == "trained twice: 4 of 4 cells have equal bits"
    text = (tmp_path / "gpu.md").read_text()
    assert all(f"## {name}: {part.title}" in text for name, part in PARTS.items())


def test_a_late_part_is_stopped_and_a_broken_one_says_why():
    late = list(gpu.rows_of("speed", True, 0.5))
    assert late[-1]["error"] == "not done within its 0 s"
    (broken,) = gpu.rows_of("no such part", True, 60)
    assert broken["error"].startswith("ended with 1: ") and "KeyError: 'no such part'" in broken["error"]
