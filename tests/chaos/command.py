"""`ablate run` from a terminal, and again."""

import subprocess
import time
from pathlib import Path

from tests.e2e.preloaded import ABLATE

PATIENCE = 180.0  # seconds until it must have succeeded


class Command:
    def __init__(self, home: Path, experiment: Path, environment: dict[str, str]):
        self.home, self.words = home, [ABLATE, "run", str(experiment)]
        self.environment = environment | {"ABLATE_HOME": str(home)}
        self.process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        with open(self.home / "said.txt", "ab") as said:
            files = {"stdout": said, "stderr": said}
            self.process = subprocess.Popen(self.words, env=self.environment, start_new_session=True, **files)

    def succeeded(self) -> bool:
        return self.process is not None and self.process.poll() == 0

    def go_on(self) -> None:
        if self.process is None or self.process.poll() not in (None, 0):
            self.begin()

    def run_to_its_end(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self.succeeded():
            assert time.monotonic() < deadline, (self.home / "said.txt").read_text()[-3000:]
            self.go_on()
            time.sleep(0.1)
