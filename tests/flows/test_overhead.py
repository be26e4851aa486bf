"""What a run needs beside its cells, measured in processes."""

import subprocess
import sys
from pathlib import Path

import pytest

from flows import overhead


def test_the_next_run_is_expected_to_need_what_the_last_one_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path))
    assert overhead.last_overhead() is None
    script = "from flows import overhead; age = overhead.since_begun(); overhead.note(age - 12.5)"
    subprocess.run([sys.executable, "-c", script], check=True)
    overhead_of_it = overhead.last_overhead()
    assert overhead_of_it is not None and 12.5 <= overhead_of_it < 30
    (tmp_path / overhead.PLACE).write_text("{}")
    assert overhead.last_overhead() is None


def test_a_process_knows_how_old_it_is():
    age = overhead.since_begun()
    assert age is not None and 0 < age < 86_400
