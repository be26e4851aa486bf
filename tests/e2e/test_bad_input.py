"""Bad input: a clear error, no traceback (`ablate_in` looks), and nothing lost."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.conftest import SMOKE, Ablate

pytestmark = pytest.mark.full


def written(path: Path, *changes: tuple[str, str]) -> Path:
    """The small experiment with some of its text replaced."""
    text = SMOKE.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", place]).returncode:
        pytest.skip("only root may mount a disk, and not in every container")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def test_a_full_disk_is_named_in_one_line_and_the_same_command_goes_on(finished, disk, ablate_in, tmp_path):
    home = shutil.copytree(finished, disk / "home", copy_function=shutil.copy2)
    path = written(tmp_path / "other.yaml", ("name: smoke", "name: other"))
    with suppress(OSError), open(disk / "filler", "wb", buffering=0) as filler:
        while filler.write(b"0" * 4096):
            pass
    for command in ("run", "sync"):
        done = ablate_in(home, command, path)
        assert done.returncode == 2 and "disk is full" in done.stderr and "sqlalche" not in done.stderr
        (said,) = [line for line in done.stderr.splitlines() if line.startswith("ablate: ")]
        assert str(disk) in said and "make room there" in said and "the same command goes on" in said
    (disk / "filler").unlink()
    assert ablate_in(home, "run", path).returncode == 0
    assert ablate_in(home, "audit", path).returncode == 0


def test_a_cell_that_diverges_is_a_result_the_first_time_and_the_second(ablate_in: Ablate, tmp_path: Path):
    axes = ("ce+supcon: {loss: ce+supcon}", "diverging: {encoder_lr: 1e30, clip: 0}")
    path = written(tmp_path / "diverging.yaml", axes, ("seeds: [0, 1]", "seeds: [0]"))
    for _ in range(2):
        done = ablate_in(tmp_path / "home", "run", path)
        assert done.returncode == 0
    text = (tmp_path / "home" / "reports" / "output" / "smoke" / "README.md").read_text()
    assert "> **Note** " in text and "diverged: " in text
