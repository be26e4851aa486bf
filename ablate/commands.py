"""Run training commands at several seeds, read a number from their output, and keep every result in a folder."""

import json
import math
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from ablate.metric import LARGEST, number_in
from contrastive.errors import UserError, brief
from contrastive.runs import store
from contrastive.runs.store import write_atomic

BASELINE, CANDIDATE = "baseline", "candidate"
SEED, JOB = "{seed}", "{job}"  # places in a command; the job is 0, 1, … among the commands that run at a time
TRIES = 2
SHOWN_LINES = 8  # of the output, when a run failed
RECORDING = threading.Lock()  # commands of several jobs may end at once
# Ends with all its children when its command ends, and when this program does: its standard input is then closed.
WRAPPER = """import contextlib, ctypes, os, psutil, subprocess, sys, threading
def end(code):
    for _ in range(100):
        children = psutil.Process().children(recursive=True)
        for process in children:
            with contextlib.suppress(psutil.Error):
                process.kill()
        if not children:
            break
        psutil.wait_procs(children, 1)
    os._exit(code)
def end_with_parent():
    os.read(0, 1)
    end(1)
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: what children leave behind stays a descendant
threading.Thread(target=end_with_parent, daemon=True).start()
end(subprocess.call(sys.argv[1], shell=True, stdin=subprocess.DEVNULL) & 0xFF)
"""
STRICT = ConfigDict(strict=True, allow_inf_nan=False)


class RunFailed(UserError):
    """A command failed twice at one seed, or its number does not go with those of other runs."""

    def __init__(self, side: str, why: str, seconds: float) -> None:
        super().__init__(why)
        self.side, self.seconds = side, seconds


@dataclass(frozen=True)
class Run:
    """A finished run: its side, its seed, the number and unit that it printed, and the seconds of all its tries."""

    __pydantic_config__ = STRICT

    side: str
    seed: int
    value: Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
    seconds: float
    unit: str
    code: str = ""  # identifies what its command would do, as it began; of a ledger

    def __str__(self) -> str:
        return f"{self.side}, seed {self.seed} printed {self.value:g} {self.unit}".rstrip()


def run_command(command: str, metric: str, log: str, timeout: float | None = None) -> tuple[float | None, str]:
    """Run a shell command; return the last number of its output that `metric` finds and its unit.

    Or None and what went wrong.
    """
    words, code = [sys.executable, "-P", "-c", WRAPPER, command], None
    environment = os.environ | {"PYTHONSAFEPATH": ""}  # commands may import from their own folder
    with (
        open(log, "wb") as out,
        subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=out, stderr=out, start_new_session=True, env=environment
        ) as process,  # closes stdin at the end
        suppress(subprocess.TimeoutExpired),
    ):
        code = process.wait(timeout)
    text = Path(log).read_bytes().decode(errors="replace")
    if code == 0:
        value, note = number_in(text, metric)
        if value is not None:
            return value, note
    else:
        note = f"took longer than {timeout:g} s" if code is None else f"ended with code {code}"
    last_lines = brief(" | ".join(text[-20_000:].strip().splitlines()[-SHOWN_LINES:]), 600)
    return None, f"{note}: {last_lines or 'no output'}"


Runner = Callable[[str, str, str], tuple[float | None, str]]  # command, metric, log → as run_command


@dataclass
class RunFolder:
    """The runs of some commands, one line each in runs.jsonl, so that nothing runs twice."""

    path: Path  # locked by the caller
    metric: str
    jobs: int = 1
    runner: Runner = run_command
    tell: Callable[[str], None] = print
    runs: list[Run] = field(default_factory=list)
    deadline: float = math.inf  # of time.monotonic(): no run begins later

    def load(self) -> None:
        """Read the runs of two commands; raise UserError that names a damaged line."""
        self.runs = read_lines(self.path / "runs.jsonl", Run)

    def values(self, side: str) -> dict[int, float]:
        return {run.seed: run.value for run in self.runs if run.side == side}

    @property
    def seconds(self) -> float:
        return sum(run.seconds for run in self.runs)

    def complete(self, wanted: Sequence[tuple[str, int]], commands: Mapping[str, str]) -> bool:
        """Run what is missing of some (side, seed), `jobs` at a time; return whether all is there.

        Raises RunFailed if a run failed twice, when all that have begun are finished. After the deadline no run begins.
        """
        present = {(run.side, run.seed) for run in self.runs}
        missing = iter([key for key in dict.fromkeys(wanted) if key not in present])
        errors = list[Exception]()

        def work(job: int) -> None:
            try:
                while not errors and time.monotonic() <= self.deadline and (key := next(missing, None)):
                    side, seed = key
                    self.record(self.run_twice(side, commands[side], seed, job=job))
            except Exception as error:
                errors.append(error)

        # Ctrl-C ends the program without waiting for daemons
        threads = [threading.Thread(target=work, args=(job,), daemon=True) for job in range(self.jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return set(wanted) <= {(run.side, run.seed) for run in self.runs}

    def record(self, run: Run) -> None:
        with RECORDING:
            if other := next((other for other in self.runs if other.unit != run.unit), None):
                raise RunFailed(run.side, f"{run}, and {other}: let all runs print the same unit", run.seconds)
            append(self.path / "runs.jsonl", asdict(run))
            self.runs.append(run)
        self.tell(f"{run.side}, seed {run.seed}: {run.value:g} ({run.seconds:.0f} s)")

    def run_twice(self, side: str, command: str, seed: int, prefix: str = "", code: str = "", job: int = 0) -> Run:
        """Run a command, once more if it fails. Raises RunFailed."""
        words = command.replace(SEED, str(seed)).replace(JOB, str(job))
        log, why, began = self.path / f"{prefix}{side}-{seed}.log".replace(" ", "-"), "", time.monotonic()
        for _ in range(TRIES):
            value, why = self.runner(words, self.metric, str(log))
            seconds = round(time.monotonic() - began, 1)
            if value is not None:
                return Run(side, seed, value, seconds, why, code)
            self.tell(f"{side}, seed {seed}: {why}")
        raise RunFailed(side, f"{side} failed twice with seed {seed}: {why}", seconds)


@contextmanager
def locked(folder: Path, tell: Callable[[str], None]) -> Iterator[None]:
    """Lock a folder of runs. If another process uses it, `tell` so and wait."""
    with store.locked(folder / "lock", timeout=0) as is_free:
        if is_free:
            yield
            return
    tell(f"another `ablate judge` is at work in {folder}; waiting for it")
    with store.locked(folder / "lock"):
        yield


def append(path: Path, line: Mapping[str, object]) -> None:
    """Append a line of JSON, so that it is either whole on disk or not there, also after a kill or on a full disk."""
    lines = path.read_bytes().splitlines() if path.exists() else []
    write_atomic(path, b"\n".join([*lines, json.dumps(line).encode(), b""]))


def read_lines(path: Path, kind: Any = dict[str, Any]) -> list[Any]:
    """Read lines of JSON, each as a `kind`; raise UserError with the number of a line that is damaged."""
    adapter, lines = TypeAdapter(kind), []
    for number, line in enumerate(path.read_bytes().splitlines() if path.exists() else (), 1):
        try:
            lines.append(adapter.validate_json(line))
        except ValidationError as error:
            first = error.errors()[0]
            raise damaged(path, number, " ".join([*map(str, first["loc"]), first["msg"]])) from None
    return lines


def damaged(path: Path, line: int, why: str) -> UserError:
    return UserError(f"{path}, line {line} is damaged ({brief(why)}): mend that line, or name another folder")


def in_turn(number: int) -> tuple[str, str]:
    """Return which side runs first: in turn, so that what changes with time favours neither."""
    return (BASELINE, CANDIDATE) if number % 2 == 0 else (CANDIDATE, BASELINE)


def check_command(option: str, command: str) -> None:
    if SEED not in command:
        raise UserError(f"{option} `{brief(command)}` has no {SEED}; write where the seed goes, such as --seed {SEED}")


def check_metric(metric: str) -> None:
    try:
        groups = re.compile(metric).groups
    except re.error as error:
        raise UserError(f"--metric `{brief(metric)}` is not a regular expression: {error}") from None
    if groups < 1:
        raise UserError(f"--metric `{brief(metric)}` has no group; put the number in parentheses: 'loss: ([-+0-9.e]+)'")
