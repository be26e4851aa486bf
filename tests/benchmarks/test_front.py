"""`make bench`: what it writes, and that its sizes of seconds run."""

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks import __main__ as front
from benchmarks import results, synthetic
from benchmarks.results import Section

ROOT = Path(__file__).parents[2]
OLD = Section("Old", "2026-01-01", "python -m old", "| 1 |")
NEW = Section("New", "2026-01-02", "python -m new", "| 2 |")


def test_a_section_takes_the_place_of_its_older_self_and_none_stands_beside_another_machine(tmp_path: Path):
    file = tmp_path / "results.md"
    results.write([OLD, NEW], file, top="# Machine\n")
    results.write([Section("Old", "2026-01-03", "python -m old", "| 3 |")], file, top="# Machine\n")
    text = file.read_text(encoding="utf-8")
    assert text.startswith("# Machine\n\n## Old\n\n`python -m old`, 2026-01-03\n\n| 3 |\n\n## New\n")
    assert "| 1 |" not in text and text.endswith("| 2 |\n")
    results.write([NEW], file, top="# Another machine\n")
    assert "## Old" not in file.read_text(encoding="utf-8")
    assert f"torch {torch.__version__}" in results.header() and " cores, " in results.header()


def test_make_bench_is_the_front():
    command = ["make", "--dry-run", "--assume-old=.venv/installed", "bench"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert "bin/python -m benchmarks" in done.stdout, done.stderr


@pytest.mark.full
def test_the_front_runs_a_benchmark_and_keeps_what_it_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "results.md"
    monkeypatch.setitem(front.TITLES, "nothing", "Nothing at all")
    monkeypatch.setattr(sys, "argv", ["benchmarks", "nothing", "--quick", "--into", str(file)])
    monkeypatch.chdir(ROOT)
    front.main()
    assert "## Nothing at all\n\n`python -m benchmarks.nothing --quick`" in file.read_text(encoding="utf-8")


def test_one_that_is_misspelt_or_has_no_gpu_is_told_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "makspan"])
    with pytest.raises(SystemExit):
        front.main()
    assert "no benchmark makspan: choose among makespan, throughput" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["benchmarks", "gpu"])
    monkeypatch.setattr(front, "gpus", list)
    with pytest.raises(SystemExit, match="no GPU here"):
        front.main()


@pytest.mark.full
def test_500_runs_take_seconds_and_little_memory(home: Path):
    uri = synthetic.write(home, synthetic.experiment(500))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    step = [sys.executable, "-m", "benchmarks.report", "load, guards, export", uri]
    done = subprocess.run(step, cwd=ROOT, env=os.environ | {"ABLATE_HOME": str(home)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime - before.ru_utime < 15  # of a processor, whoever else is on the machine; alone it is 3
    peak = re.search(r"peak (\d+) MiB", done.stdout)
    assert peak is not None and int(peak[1]) < 600
    assert (home / "results.csv").read_text().count("\n") == (505 + 30) * 19 + 1
