"""SIGKILL at random moments, at everything in turn; the same command again until it is done.

A few kills with `make test-all`. `make chaos` kills more.
"""

import itertools
import os
import random
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from tests.chaos import grid, processes
from tests.chaos.command import PATIENCE, Command
from tests.waiting import alive, left_after

pytestmark = pytest.mark.full
KINDS = ("child of a training", "flow", "worker")
LONGEST = 6.0  # seconds that a process lives before it is killed
GRACE = 15.0  # seconds after which what a killed process had begun must be gone too
Truth = dict[str, dict[str, str]]


def test_whatever_is_killed_the_grid_ends_as_if_nothing_had_been(home, experiment, environment, truth, request):
    chance = random.Random(request.config.getoption("--seed"))
    command, faults = Command(home, experiment, environment), Counter[str]()
    try:
        for kind in itertools.islice(itertools.cycle(KINDS), request.config.getoption("--kills")):
            target = next_target(command, kind, chance, truth, faults)
            family = processes.with_descendants(target)
            target.kill()
            faults["orphaned"] += len(left_after(GRACE, lambda family=family: alive(family[1:])))
        command.run_to_its_end()
        count_faults(home, truth, faults)
        assert processes.gone_within(10, home) == [] and grid.left_in_the_store(home) == []
    finally:  # where something went wrong, nothing of it disturbs what follows
        for left in processes.of(home):
            left.kill()
    print(dict(faults))
    assert not faults.total()


def next_target(
    command: Command, kind: str, chance: random.Random, truth: Truth, faults: Counter[str]
) -> psutil.Process:
    """Return a process of this kind some time after it was there; a grid that is done begins all over again."""
    deadline, due = time.monotonic() + PATIENCE, None
    while True:
        assert time.monotonic() < deadline, (command.home / "said.txt").read_text()[-3000:]
        if command.succeeded():
            count_faults(command.home, truth, faults)
            os.rename(command.home / "runs", command.home / f"done {time.monotonic()}")
            command.begin()
        command.go_on()
        targets = processes.of_kind(command.home, kind)
        if not targets or not processes.of_kind(command.home, "worker"):
            due = None
        elif due is None:
            due = time.monotonic() + chance.uniform(0, LONGEST)
        elif time.monotonic() > due:
            return chance.choice(sorted(targets, key=lambda process: process.pid))
        time.sleep(0.1)  # each look reads the environment of every process


def count_faults(home: Path, truth: Truth, faults: Counter[str]) -> None:
    """Compare a grid that is done with the one that nobody disturbed."""
    results = grid.results(home)
    faults["lost"] += len(truth.keys() - results.keys())
    faults["torn"] += sum(numbers != truth.get(cell) for cell, numbers in results.items())
    for run in home.glob("runs/*"):
        faults["trained twice"] += grid.trainings(run) > 1
        faults["steps lost beyond a checkpoint"] += any(steps > grid.CHECKPOINT_EVERY for steps in steps_in_vain(run))


def steps_in_vain(run: Path) -> list[int]:
    """Each attempt's steps that are in its log, and neither in the cell's nor in an earlier one's.

    A step that is done again has another speed in its line, and one that is taken over has the same.
    """
    seen, in_vain = set(grid.lines(run)), []
    for attempt in sorted((run / "attempts").glob("[0-9]*")):
        new = set(grid.lines(attempt)) - seen
        seen |= new
        in_vain.append(len(new))
    return in_vain
