"""Kills at random moments while a grid runs, the same command again until it is done, and what that cost by kind."""

import json
import os
import random
import signal
import sqlite3
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from contrastive.runs import claim
from tests.chaos import grid, processes
from tests.chaos.ways import NEXT_EVENT, Command, Way
from tests.waiting import alive, left_after, soon

GRACE = 15.0  # seconds after which what a killed process had begun must be gone too
AT_ONCE, AT_WORK = 6.0, 2.0  # seconds that one lives at most, since it was there, or since a cell trained


@dataclass
class Row:
    kills: int = 0
    lost: int = 0
    duplicated: int = 0
    orphaned: int = 0
    extra: int = 0
    most: int = 0


@dataclass
class Soak:
    way: Way
    truth: dict[str, dict[str, str]]
    seed: int
    rows: dict[str, Row] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    laps: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.hit: dict[tuple[str, int], str] = {}  # the attempts that a kill ended
        self.begun_with: dict[Path, int] = {}  # log of an attempt → bytes, when it was seen first

    def kill(self, kind: str) -> None:
        """A process of this kind, at a random moment while the grid is at work; what it began must end too."""
        target = self._target(kind)
        family = self.way.begun_by(target, kind)
        above = [one.pid for one in target.parents()]
        self._note(kind, {one.pid for one in family} | set(above))
        target.send_signal(signal.SIGKILL)
        self.way.replace(kind)
        orphans = left_after(GRACE, lambda: alive(family[1:]))
        self.row(kind).orphaned += len(orphans)
        self.faults += [f"{one.pid} outlived the {kind} by {GRACE:.0f} s: {processes.command(one)}" for one in orphans]
        self.row(kind).kills += 1
        print(f"{time.strftime('%X')} {self.way.name}, lap {self.laps}, killed the {kind} {target.pid}", flush=True)

    def row(self, kind: str) -> Row:
        return self.rows.setdefault(kind, Row())

    def finish(self) -> None:
        """The same command again until it is done, then nothing may be left of it."""
        deadline = time.monotonic() + NEXT_EVENT
        while self.way.running() or not self.way.succeeded():
            self._go_on(deadline)
        self.check()
        self.faults += self.way.end()
        self.faults += left_in_the_store(self.way.home)

    def _target(self, kind: str) -> psutil.Process:
        begun, due, at_work = time.monotonic(), None, self.random.random() < 0.7
        while True:
            if not self.way.running() and self.way.succeeded():
                self.next_lap()
            self._go_on(begun + NEXT_EVENT)
            found = self.way.of_kind(kind)
            if not found or not (self._trains() if at_work else self.way.of_kind("worker")):
                due = None if not found else due
            elif due is None:
                due = time.monotonic() + self.random.uniform(0, AT_WORK if at_work else AT_ONCE)
            elif time.monotonic() > due:
                return self.random.choice(sorted(found, key=lambda one: one.pid))

    def _go_on(self, deadline: float) -> None:
        assert time.monotonic() < deadline, (self.way.home / "said.txt").read_text()[-3000:]
        if not self.way.running() and not self.way.succeeded():
            self.way.begin()
        time.sleep(0.1)  # each look reads the environment of every process

    def _trains(self) -> bool:
        """Whether a cell is in the middle of its steps: its log, at first that of an earlier attempt, has grown."""
        for run in filter(claim.is_held, self.way.home.glob("runs/*")):
            log = run / "attempts" / claim.latest_attempt(run) / "metrics.jsonl"
            with suppress(FileNotFoundError):  # not there yet, or just moved to the run folder
                if (size := log.stat().st_size) > self.begun_with.setdefault(log, size):
                    return True
        return False

    def _note(self, kind: str, family: set[int]) -> None:
        for run in self.way.home.glob("runs/*"):
            for known in claim.attempts(run)[-1:]:
                if "ended" not in known and known["pid"] in family:
                    self.hit[run.name, known["number"]] = kind

    def next_lap(self) -> None:
        """All over again: what is finished goes aside."""
        self.check()
        self.laps += 1
        aside = self.way.home / "laps" / str(self.laps)
        aside.parent.mkdir(exist_ok=True)
        os.rename(self.way.home / "runs", aside)
        self.way.begin()

    def check(self) -> None:
        """What a lap that is done holds, against the truth; each loss is booked on the last kill that hit the cell."""
        found = grid.results(self.way.home)
        for cell, numbers in self.truth.items():
            run = self.way.home / "runs" / cell
            kinds = [kind for (name, _), kind in self.hit.items() if name == cell] or ["none"]
            if found.get(cell) != numbers:
                self.row(kinds[-1]).lost += 1
                self.faults.append(f"{cell}: {difference(found.get(cell), numbers)}")
            if trainings(run) > 1:
                self.row(kinds[-1]).duplicated += 1
            for number, steps in extra_steps(run).items():
                row = self.row(self.hit.get((cell, number), "none"))
                row.extra, row.most = row.extra + steps, max(row.most, steps)
        if set(found) != set(self.truth):
            self.faults.append(f"cells {sorted(found)}, and without a kill {sorted(self.truth)}")
        self.hit.clear()
        self.begun_with.clear()


def table(soaks: list[Soak]) -> str:
    """One of all, in Markdown."""
    head = "| under | killed | kills | lost | duplicated | orphaned | extra steps | most a kill |"
    head += "\n|---|---|" + "---:|" * 6
    rows = [(one.way.name, kind, row) for one in soaks for kind, row in one.rows.items()]
    lines = [
        f"| {under} | {kind} | {r.kills} | {r.lost} | {r.duplicated} | {r.orphaned} | {r.extra} | {r.most} |"
        for under, kind, r in [*rows, ("all", "all", sum_of([row for *_, row in rows]))]
    ]
    return "\n".join([head, *lines])


def sum_of(rows: list[Row]) -> Row:
    sums = [sum(values) for values in zip(*(list(vars(row).values())[:-1] for row in rows), strict=True)]
    return Row(*sums, most=max(row.most for row in rows))


def trainings(run: Path) -> int:
    """How often a cell was trained to its end."""
    return sum(known["stage"] == "train" and known.get("outcome") == "done" for known in claim.attempts(run))


def extra_steps(run: Path) -> dict[int, int]:
    """Attempt → the steps it did in vain: lines that are in its log, and neither in the cell's nor an earlier one's.

    A step that is done again has another speed in its line, and one that is taken over has the same.
    """
    seen, found = set(lines(run)), {}
    for attempt in sorted((run / "attempts").glob("[0-9]*")):
        new = set(lines(attempt)) - seen
        seen |= new
        if new:
            found[int(attempt.name)] = len(new)
    return found


def lines(folder: Path) -> list[str]:
    try:
        return (folder / "metrics.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    except FileNotFoundError:
        return []


def left_in_the_store(home: Path) -> list[str]:
    """Cells that somebody holds, and MLflow runs that say RUNNING, where nothing runs any more."""
    held = [run for run in home.glob("runs/*") if claim.is_held(run)]
    with closing(sqlite3.connect(home / "mlflow.db")) as database:
        query = "select name from runs where status = 'RUNNING' and lifecycle_stage = 'active'"
        running = [name for (name,) in database.execute(query)]
    return [f"{run.name} is held" for run in held] + [f"MLflow says that {name} is RUNNING" for name in running]


def difference(found: dict[str, str] | None, expected: dict[str, str]) -> str:
    if found is None:
        return "not finished"
    return f"other numbers than undisturbed: {sorted(name for name in expected if found[name] != expected[name])}"


def undisturbed(home: Path, experiment: Path, environment: dict[str, str]) -> dict[str, Any]:
    """The truth: what the grid holds when nobody is killed."""
    way = Command(home, experiment, environment)
    way.begin()
    soon(lambda: not way.running(), otherwise="a grid that nobody disturbed did not end")
    assert way.succeeded(), (home / "said.txt").read_text()[-3000:]
    return json.loads(json.dumps(grid.results(home)))
