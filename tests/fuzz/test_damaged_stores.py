"""A home whose files are damaged at random: no command shows a traceback, and in the end the numbers are as before."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.conftest import Rounds

Look = Callable[[int], dict[str, Any]]


def answer(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The next one, among what libraries say; empty where the process died."""
    assert process.stdout is not None
    return next((dict(json.loads(line)) for line in process.stdout if line.startswith("{")), {})


@pytest.fixture(scope="module")
def look(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Look]:
    """Asks a process that has a finished home for a round."""
    folder = tmp_path_factory.mktemp("damaged")
    kept = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
    with open(folder / "said.txt", "wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.damaged", str(folder)], env=kept | {"OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True, cwd=Path(__file__).parents[2],
        )  # fmt: skip
    made = answer(process)
    assert len(made.get("truth", {})) == 3, f"{made} {(folder / 'said.txt').read_text()[-3000:]}"

    def ask(number: int) -> dict[str, Any]:
        assert process.stdin is not None
        process.stdin.write(f"{number}\n")
        process.stdin.flush()
        return answer(process)

    yield ask
    assert process.stdin is not None
    process.stdin.close()
    process.wait(60)


@pytest.mark.full
def test_damaged_files_are_mended_and_never_shown_as_tracebacks(look: Look, rounds: Rounds):
    for number, _ in rounds(1):
        found = look(number)
        assert found.get("faults") == [], f"round {number}, {found}".replace("\\n", "\n")
