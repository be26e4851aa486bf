"""Processor time."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from contrastive.training import meters


def work(resume: Path, rank: int, seconds: float = 0.1) -> None:
    with meters.training_time(resume, rank):
        end = time.process_time() + seconds
        while time.process_time() < end:
            pass


def cpu_of(resume: Path, processes: int) -> float | None:
    return meters.read_training_time(resume, processes)["training_cpu_seconds"]


def test_the_time_of_training_is_that_of_the_processor_and_adds_up_over_tries_and_processes(tmp_path: Path):
    began = time.process_time()
    burn = "import time\nwhile time.process_time() < 1: pass"
    with meters.training_time(tmp_path, 0):
        subprocess.run([sys.executable, "-c", burn], check=True)  # waits a second and longer, as on a busy machine
    assert (waited := cpu_of(tmp_path, 1)) is not None and waited < 0.5
    with pytest.raises(KeyboardInterrupt), meters.training_time(tmp_path, 0):
        work(tmp_path / "other", 0)
        raise KeyboardInterrupt
    work(tmp_path, 0)
    assert cpu_of(tmp_path, 2) is None  # that of a process is missing
    work(tmp_path, 1)
    spent = cpu_of(tmp_path, 2)
    assert spent is not None and waited + 0.299 <= spent <= time.process_time() - began


def test_time_that_a_kill_left_unknown_stays_unknown(tmp_path: Path):
    with meters.training_time(tmp_path, 0):
        left = (tmp_path / "time.0.json").read_bytes()
    (tmp_path / "time.0.json").write_bytes(left)
    work(tmp_path, 0)
    assert meters.read_training_time(tmp_path, 1) == {"training_cpu_seconds": None, "training_gpu_seconds": None}
