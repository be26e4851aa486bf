"""Run training commands at several seeds, read a number from their output, and keep every result in a folder."""

import fcntl
import hashlib
import json
import math
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from ablate.identity import PLACE, file_digest
from ablate.metric import LARGEST
from contrastive.errors import UserError, brief
from contrastive.runs.store import write_atomic

BASELINE, CANDIDATE = "baseline", "candidate"
JOB = "{job}"  # 0, 1, … among the runs of a moment
TRIES = 2
SEARCH = 20  # seconds to search a log, and one more for each 4 MiB
TOLD = 8  # last lines of output shown when a run failed
RECORDING = threading.Lock()  # runs of several jobs may end at once
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


class RunFailed(UserError):
    """A command failed twice at one seed, or its number does not go with those of other runs. `who`: whose it was."""

    def __init__(self, who: str, why: str) -> None:
        super().__init__(why)
        self.who = who


STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


@dataclass(frozen=True)
class Run:
    """A finished run: whose it is, its seed, the number and unit that it printed, and how long it took."""

    __pydantic_config__ = STRICT

    who: str
    seed: int
    value: Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
    seconds: float
    unit: str
    code: str = ""  # identifies what its command would do, as it began

    def __str__(self) -> str:
        return f"{self.who}, seed {self.seed} printed {self.value:g} {self.unit}".rstrip()


@dataclass(frozen=True)
class Failure:
    """A line of failed.jsonl: a try of a run that failed, and how many runs were finished before."""

    __pydantic_config__ = STRICT

    who: str
    seed: int
    why: str
    seconds: float
    code: str
    command: str
    prefix: str
    output: str | None  # digest of its log
    after: int


def run_command(command: str, metric: str, log: str, timeout: float | None = None) -> tuple[float | None, str]:
    """Run a shell command; return the last number of its output that `metric` finds and its unit.

    Or None and what went wrong.
    """
    popen, pipe, words = subprocess.Popen, subprocess.PIPE, [sys.executable, "-P", "-c", WRAPPER, command]
    code = None
    with (
        open(log, "wb") as out,
        popen(words, stdin=pipe, stdout=out, stderr=out, start_new_session=True) as process,  # closes stdin at the end
        suppress(subprocess.TimeoutExpired),
    ):
        code = process.wait(timeout)
    if code == 0:
        value, note = search(metric, log)
        if value is not None:
            return value, note
    else:
        note = f"took longer than {timeout:g} s" if code is None else f"ended with code {code}"
    return None, f"{note}: {last_lines(log) or 'no output'}"


def search(metric: str, log: str) -> tuple[float | None, str]:
    """Search a log in a process of its own, since a regular expression may take for ever."""
    words = [sys.executable, "-P", "-m", "ablate.metric", log, metric]
    seconds = SEARCH + os.path.getsize(log) // (1 << 22)
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise UserError(
            f"--metric `{brief(metric)}` takes too long in {log}; write it without nested repetitions"
        ) from None
    if done.returncode:
        raise UserError(f"--metric `{brief(metric)}` cannot be searched for in {log}: {brief(done.stderr[-600:])}")
    value, why = json.loads(done.stdout)
    return value, why


def last_lines(log: str) -> str:
    with open(log, "rb") as file:
        file.seek(max(0, os.path.getsize(log) - 20_000))
        text = file.read().decode("utf-8", errors="replace")
    return brief(" | ".join(text.strip().splitlines()[-TOLD:]), 600)


Runner = Callable[[str, str, str], tuple[float | None, str]]


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
    code: str = ""  # noted with each run

    def load(self) -> None:
        """Read the runs of two commands; raise UserError that names a damaged line."""
        self.runs = read_lines(file := self.path / "runs.jsonl", Run)
        for number, run in enumerate(self.runs):
            if any((run.who, run.seed) == (other.who, other.seed) for other in self.runs[:number]):
                raise damaged(file, number + 1, f"{run.who}, seed {run.seed} is there twice")

    def values(self, who: str) -> dict[int, float]:
        return {run.seed: run.value for run in self.runs if run.who == who}

    def failures(self) -> list[Failure]:
        return read_lines(self.path / "failed.jsonl", Failure)

    def log(self, prefix: str, who: str, seed: int) -> Path:
        return self.path / f"{prefix}{who}-{seed}.log".replace(" ", "-")

    @property
    def seconds(self) -> float:
        return sum(run.seconds for run in self.runs)

    def complete(self, wanted: Sequence[tuple[str, int]], commands: Mapping[str, str]) -> bool:
        """Run what is missing of some (who, seed), `jobs` at a time; return whether all is there.

        Raises RunFailed if a run failed twice, when all that have begun are finished. After the deadline no run begins.
        """
        present = {(run.who, run.seed) for run in self.runs}
        missing = [key for key in dict.fromkeys(wanted) if key not in present]
        jobs, thread = iter(range(self.jobs)), threading.local()
        pool = ThreadPoolExecutor(self.jobs, initializer=lambda: setattr(thread, "job", next(jobs)))

        def run(who: str, seed: int) -> bool:
            if time.monotonic() > self.deadline:
                return False
            try:
                self.record(self.run_twice(who, commands[who], seed, job=thread.job))
            except Exception:
                self.deadline = -math.inf  # no other run begins
                raise
            return True

        futures = [pool.submit(run, who, seed) for who, seed in missing]
        try:
            wait(futures)
        finally:  # Ctrl-C waits for no run, and what has not begun does not begin
            pool.shutdown(wait=False, cancel_futures=True)
        done = [future.result() for future in futures]  # raises what a run has raised
        return all(done)

    def record(self, run: Run) -> None:
        with RECORDING:
            if other := next((other for other in self.runs if other.unit != run.unit), None):
                raise RunFailed(run.who, f"{run}, and {other}: let all runs print the same unit")
            append(self.path / "runs.jsonl", asdict(run))
            self.runs.append(run)
        self.tell(f"{run.who}, seed {run.seed}: {run.value:g} ({run.seconds:.0f} s)")

    def run_twice(self, who: str, command: str, seed: int, prefix: str = "", job: int = 0) -> Run:
        """Run a command, once more if it fails. Raises RunFailed."""
        words = command.replace(PLACE, str(seed)).replace(JOB, str(job))
        log, why = self.log(prefix, who, seed), ""
        for _ in range(TRIES):
            began = time.monotonic()
            value, why = self.runner(words, self.metric, str(log))
            seconds = round(time.monotonic() - began, 1)
            if value is not None:
                return Run(who, seed, value, seconds, why, self.code)
            append(room := self.path / ".room", {"room": " " * (1 << 20)})  # a full disk is not the command's fault
            room.unlink(missing_ok=True)
            with RECORDING:
                noted = (who, seed, why, seconds, self.code, command, prefix, file_digest(log), len(self.runs))
                append(self.path / "failed.jsonl", asdict(Failure(*noted)))
            self.tell(f"{who}, seed {seed}: {why}")
        raise RunFailed(who, f"{who} failed twice with seed {seed}: {why}")


@contextmanager
def locked(folder: Path, tell: Callable[[str], None]) -> Iterator[None]:
    """Lock a folder of runs. If another process uses it, `tell` so and wait."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "a", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell(f"another `ablate judge` is at work in {folder}; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def append(path: Path, line: Mapping[str, object]) -> None:
    """Append a line of JSON, so that it is either whole on disk or not there, also after a kill or on a full disk."""
    before = path.read_bytes().splitlines() if path.exists() else []
    try:
        write_atomic(path, b"\n".join([*before, json.dumps(line).encode(), b""]))
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def read_lines(path: Path, kind: Any = dict[str, Any]) -> list[Any]:
    """Read lines of JSON, each as a `kind`; raise UserError with the number of a line that is damaged."""
    adapter, found = TypeAdapter(kind), []
    for number, line in enumerate(path.read_bytes().splitlines() if path.exists() else (), 1):
        try:
            found.append(adapter.validate_json(line))
        except ValidationError as error:
            first = error.errors()[0]
            raise damaged(path, number, " ".join([*map(str, first["loc"]), first["msg"]])) from None
    return found


class Damaged(UserError):
    """A line of a folder's file is not what the others tell."""

    def __init__(self, path: Path, line: int, why: str) -> None:
        super().__init__(f"{path}, line {line} is damaged ({brief(why)}): mend that line, or name another folder")
        self.path, self.line, self.why = path, line, why


def damaged(path: Path, line: int, why: str) -> UserError:
    return Damaged(path, line, why)


def seed_at(number: int, text: str = "") -> int:
    """Return a seed by its number: the number itself, or 31 bits of the SHA-256 of a text and the number."""
    return (
        int.from_bytes(hashlib.sha256(f"{text} {number}".encode(errors="surrogateescape")).digest()[:4]) >> 1
        if text
        else number
    )


def in_turn(number: int) -> tuple[str, str]:
    """Return who runs first: in turn, so that what changes with time favours neither."""
    return (BASELINE, CANDIDATE) if number % 2 == 0 else (CANDIDATE, BASELINE)


def check_command(option: str, command: str) -> None:
    if PLACE not in command:
        raise UserError(
            f"{option} `{brief(command)}` has no {PLACE}; write where the seed goes, such as --seed {PLACE}"
        )


def check_text(**options: str) -> None:
    """Raise UserError for what a ledger or a receipt could not be read with again."""
    for option, text in options.items():
        if text.encode(errors="replace") != text.encode(errors="surrogateescape"):
            raise UserError(
                f"--{option} `{brief(text)}` is not UTF-8, which a ledger or a receipt needs: put it into a script"
            )


def check_metric(metric: str) -> None:
    try:
        groups = re.compile(metric).groups
    except re.error as error:
        raise UserError(f"--metric `{brief(metric)}` is not a regular expression: {error}") from None
    if groups < 1:
        raise UserError(f"--metric `{brief(metric)}` has no group; put the number in parentheses: 'loss: ([-+0-9.e]+)'")
