"""Run training commands at several seeds, read a number from their output, and keep every result in a folder."""

import fcntl
import json
import math
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from contrastive.errors import UserError, brief

PLACE = "{seed}"
JOB = "{job}"  # 0, 1, … among the runs of a moment
TRIES = 2
NUMBER = r"[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?"
TOLD = 8  # last lines of output shown when a run failed
# Ends with all its children when this program does, however that ends: its standard input is then closed.
WRAPPER = """import ctypes, os, signal, subprocess, sys, threading
ending = threading.Lock()
def end_with_parent():
    os.read(0, 1)
    import psutil
    ending.acquire()  # for ever: we must not exit when the first of them is killed
    for process in psutil.Process().children(recursive=True):
        try:
            process.kill()
        except psutil.NoSuchProcess:
            pass
    os.killpg(0, signal.SIGKILL)
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: what children leave behind stays a descendant
threading.Thread(target=end_with_parent, daemon=True).start()
code = subprocess.call(sys.argv[1], shell=True, stdin=subprocess.DEVNULL)
with ending:
    os._exit(code & 0xFF)
"""


class RunFailed(UserError):
    """A command failed twice at one seed, or printed no number."""


@dataclass(frozen=True)
class Run:
    """A finished run: whose it is, its seed, the number that it printed, and how long it took."""

    who: str
    seed: int
    value: float
    seconds: float


def run_command(command: str, metric: str, log: str) -> tuple[float | None, str]:
    """Run a shell command; return the last number of its output that `metric` finds, or None and what went wrong."""
    popen, pipe, words = subprocess.Popen, subprocess.PIPE, [sys.executable, "-P", "-c", WRAPPER, command]
    with open(log, "wb") as out, popen(words, stdin=pipe, stdout=out, stderr=out, start_new_session=True) as process:
        try:
            code = process.wait()
        except BaseException:
            if process.stdin:
                process.stdin.close()  # so that it ends, with its children
            process.wait()
            raise
    text = Path(log).read_text(encoding="utf-8", errors="replace")
    tail = brief(" | ".join(text.strip().splitlines()[-TOLD:]), 600)
    if code:
        return None, f"ended with code {code}: {tail or 'no output'}"
    value, why = number_in(text, metric)
    return value, why and f"{why}: {tail or 'no output'}"


def number_in(text: str, metric: str) -> tuple[float | None, str]:
    """Return the last number of an output that `metric` finds, or None and what is wrong with it."""
    found = [match for match in re.finditer(metric, text) if match[1] is not None]
    if not found:
        return None, f"printed nothing that --metric `{metric}` finds"
    last = found[-1]
    if unread := unread_after(text, last):  # of a run that diverged, the good epoch before does not count
        return None, f"printed `{brief(unread)}` last, which --metric `{metric}` does not find"
    if re.match(r"[eE][-+]?\d", text[last.end(1) :]):
        return (
            None,
            f"printed `{brief(last[1])}` with an exponent, which --metric `{metric}` cuts off; add e+- to its group",
        )
    try:
        value = float(last[1].rstrip("."))
    except ValueError:
        return None, f"printed `{brief(last[1])}`, which is not a number"
    return (value, "") if math.isfinite(value) else (None, f"printed {value}, which cannot be compared")


def unread_after(text: str, last: re.Match[str]) -> str:
    """Return what stands after the last match in the place of a number: nan, inf, none, or a cut minus sign.

    The place is between the same words (other numbers aside), those of the line if the match has none before its group.
    """
    before, after = text[last.start() : last.start(1)].strip(), text[last.end(1) : last.end()].rstrip()
    start = "" if before else "(?m:^)"
    before = before or text[text.rfind("\n", 0, last.start()) + 1 : last.start(1)].strip()
    if not (before or after):
        return ""
    known = re.escape(re.sub(NUMBER, "\0", before)).replace("\0", NUMBER)
    number = r"(?:[-+]?(?i:nan|inf|infinity|none|null)(?!\w)|-\.?\d[\d.]*)"
    found = list(re.finditer(rf"{start}{known}\s*{number}{re.escape(after)}", text[last.end() :]))
    return found[-1][0].strip() if found else ""


Runner = Callable[[str, str, str], tuple[float | None, str]]


@dataclass
class RunFolder:
    """The runs of some commands, one line each in runs.jsonl, so that nothing runs twice."""

    path: Path
    metric: str
    jobs: int = 1
    runner: Runner = run_command
    tell: Callable[[str], None] = lambda text: None
    runs: list[Run] = field(default_factory=list)
    deadline: float = math.inf  # of time.monotonic(): no run begins later

    @contextmanager
    def opened(self) -> Iterator["RunFolder"]:
        """Lock the folder and read its runs; raise UserError if another process uses it."""
        with locked(self.path):
            self.runs = [Run(**line) for line in read_lines(self.path / "runs.jsonl")]
            yield self

    def values(self, who: str) -> dict[int, float]:
        return {run.seed: run.value for run in self.runs if run.who == who}

    def complete(self, wanted: Sequence[tuple[str, int]], commands: Mapping[str, str]) -> bool:
        """Run what is missing of some (who, seed), `jobs` at a time; return whether all is there.

        Raises RunFailed if a run failed twice, when all that have begun are finished. After the deadline no run begins.
        """
        present = {(run.who, run.seed) for run in self.runs}
        missing = [key for key in dict.fromkeys(wanted) if key not in present]
        jobs, thread = iter(range(self.jobs)), threading.local()
        pool = ThreadPoolExecutor(self.jobs, initializer=lambda: setattr(thread, "job", next(jobs)))

        def run(who: str, seed: int) -> bool:
            return self._run(who, seed, commands[who].replace(JOB, str(thread.job)))

        futures = [pool.submit(run, who, seed) for who, seed in missing]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:  # Ctrl-C waits for no run, and what has not begun does not begin
            pool.shutdown(wait=False, cancel_futures=True)
        begun = [future for future in futures if not future.cancelled()]
        wait(begun)
        done = [future.result() for future in begun]  # raises what a run has raised
        return len(done) == len(futures) and all(done)

    def _run(self, who: str, seed: int, command: str) -> bool:
        if time.monotonic() > self.deadline:
            return False
        try:
            value, seconds = run_twice(self.runner, who, command, seed, self.metric, self.path, self.tell)
        except RunFailed:
            self.deadline = -math.inf  # no other run begins
            raise
        run = Run(who, seed, value, seconds)
        append(self.path / "runs.jsonl", asdict(run))
        self.runs.append(run)
        self.tell(f"{who}, seed {seed}: {value:g} ({run.seconds:.0f} s)")
        return True


def run_twice(
    runner: Runner,
    who: str,
    command: str,
    seed: int,
    metric: str,
    folder: Path,
    tell: Callable[[str], None],
    name: str = "",
) -> tuple[float, float]:
    """Run a command, once more if it fails; return its number and its seconds. Raises RunFailed."""
    why = ""
    for _ in range(TRIES):
        began = time.monotonic()
        value, why = runner(command.replace(PLACE, str(seed)), metric, str(folder / f"{name}{who}-{seed}.log"))
        if value is not None:
            return value, round(time.monotonic() - began, 1)
        tell(f"{who}, seed {seed}: {why}")
    raise RunFailed(f"{who} failed twice with seed {seed}: {why}")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder of runs; raise UserError if another process uses it."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "a", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"another `ablate judge` is at work in {folder}; wait for it, or stop it") from None
        yield


def append(path: Path, line: Mapping[str, object]) -> None:
    """Append a line of JSON, so that it is either whole on disk or not there."""
    with open(path, "ab+") as file:
        file.seek(0, os.SEEK_END)
        end = file.tell()
        if end:
            file.seek(end - 1)
            torn = file.read(1) != b"\n"
            if torn:
                file.write(b"\n")
        file.write(json.dumps(line).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read lines of JSON, without one that a kill has cut."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            lines.append(json.loads(line))
        except ValueError:
            continue
    return lines


def check_command(option: str, command: str) -> None:
    if PLACE not in command:
        raise UserError(
            f"{option} `{brief(command)}` has no {PLACE}; write where the seed goes, such as --seed {PLACE}"
        )


def check_metric(metric: str) -> None:
    try:
        groups = re.compile(metric).groups
    except re.error as error:
        raise UserError(f"--metric `{brief(metric)}` is not a regular expression: {error}") from None
    if groups < 1:
        raise UserError(f"--metric `{brief(metric)}` has no group; put the number in parentheses: 'loss: ([-+0-9.e]+)'")
