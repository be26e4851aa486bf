"""A store of many runs, made up but real, is read, checked and exported in a time and a memory that are bounded."""

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import synthetic

ROOT = Path(__file__).parents[2]


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
