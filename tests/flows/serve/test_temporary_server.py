"""A Prefect server for one command: where it writes, and that it ends with the command however that ends."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.flows.conftest import gone_within

PROGRAM = """
import sys
from flows.serve import orphans, temporary_server
temporary_server.before_import()
with orphans.none(), temporary_server.server():
    print("serving", flush=True)
    sys.stdin.read()
"""


@pytest.mark.full
def test_it_ends_with_its_command_also_when_the_watcher_is_killed_too(tmp_path: Path):
    user, home = tmp_path / "user", tmp_path / "home"
    user.mkdir()
    kept = {name: value for name, value in os.environ.items() if name not in ("PREFECT_API_URL", "PREFECT_HOME")}
    environment = kept | {"HOME": str(user), "ABLATE_HOME": str(home)}
    command = [sys.executable, "-c", PROGRAM]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, text=True, **pipes) as process:
        assert process.stdout.readline() == "serving\n"
        started = psutil.Process(process.pid).children()
        assert any("flows.serve.prefect_server" in one.cmdline() for one in started)
        assert any("watcher.py" in " ".join(one.cmdline()) for one in started)
        for one in started:
            if "flows.serve.prefect_server" not in one.cmdline():
                one.kill()
        process.kill()
    assert gone_within(60, started)
    assert (home / ".prefect" / "run" / "prefect.db").exists()
    assert not (user / ".prefect").exists()
