"""Two `ablate worker` share a home, while their processes are killed, stopped or meet a full disk, and the clock jumps;
those that failed begin again, until nothing is left."""

import itertools
import json
import os
import random
import resource
import signal
import subprocess
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.chaos import grid, processes
from tests.chaos.command import Command
from tests.chaos.test_kills import GRACE, count_faults, next_target
from tests.e2e.preloaded import ABLATE
from tests.waiting import alive, left_after

pytestmark = pytest.mark.full
KINDS = ("child of a training", "command", "worker")
HARMS = ("kill", "kill", "stop", "fill the disk")
CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int code = real(id, now);
    if (id == CLOCK_REALTIME) now->tv_sec += (now->tv_sec / 3 % 3 - 1) * 3600;
    return code;
}
"""


class Workers(Command):
    """Two workers; one that ended without success begins again."""

    def __init__(self, home: Path, experiment: Path, environment: dict[str, str]):
        super().__init__(home, experiment, environment)
        self.words = [ABLATE, "worker", str(experiment)]
        self.both: list[subprocess.Popen[bytes] | None] = [None, None]

    def begin(self) -> None:
        for number in range(2):
            self.process = self.both[number]
            if self.process is None or self.process.poll() is not None:
                super().begin()
                self.both[number] = self.process

    def succeeded(self) -> bool:
        return all(process is not None and process.poll() == 0 for process in self.both)

    def go_on(self) -> None:
        if any(process is None or process.poll() not in (None, 0) for process in self.both):
            self.begin()


def test_whatever_happens_to_workers_the_cells_are_as_if_nothing_had(
    home, tmp_path, experiment, environment, truth, request
):
    chance, faults = random.Random(request.config.getoption("--seed")), Counter[str]()
    resources = {"checkpoint_every": grid.CHECKPOINT_EVERY, "hung_after": 40}
    file = experiment.with_name("workers.yaml")  # config.json names the file of the texts
    file.write_text(json.dumps(json.loads(experiment.read_text()) | {"resources": resources}))
    workers = Workers(home, file, environment | jumping_clock(tmp_path))
    try:
        for kind in itertools.islice(itertools.cycle(KINDS), request.config.getoption("--kills")):
            target = next_target(workers, kind, chance, truth, faults)
            family, harm = processes.with_descendants(target), chance.choice(HARMS)
            faults[f"harm: {harm}, {kind}"] += 1
            if harm == "fill the disk":
                resource.prlimit(target.pid, resource.RLIMIT_FSIZE, (4096, 4096))
                continue
            if harm == "stop" and kind != "command":  # its command finds that a training hangs
                os.kill(target.pid, signal.SIGSTOP)
                left_after(60, lambda target=target: alive([target]))
            with suppress(psutil.NoSuchProcess):
                target.kill()
            faults["orphaned"] += len(left_after(GRACE, lambda family=family: alive(family[1:])))
        workers.run_to_its_end()
        count_faults(home, truth, faults)
        assert processes.gone_within(10, home) == [] and grid.left_in_the_store(home) == []
    finally:
        for left in processes.of(home):
            left.kill()
    print(dict(faults))
    assert not sum(count for fault, count in faults.items() if not fault.startswith("harm"))


def jumping_clock(folder: Path) -> dict[str, str]:
    """Return the environment of programs whose clock jumps by an hour, back and forth, every three seconds."""
    source, library = folder / "clock.c", folder / "clock.so"
    source.write_text(CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return {"LD_PRELOAD": str(library)}
