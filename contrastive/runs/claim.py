"""Lock a cell for one process at a time, and number the attempts at its stages.

The holder keeps the lock for its whole attempt; the system frees it when the process ends, for whatever reason.
It works in the attempt's folder, and `publish` moves the files into the run folder, unless another attempt has finished
the stage meanwhile, which happens only where locks do not hold. A process that hangs keeps the others waiting until its
engine kills it after `resources.hung_after`.
"""

import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from contrastive.runs import stopping, store

# How often each kind of failure is tried in one command; others once. Preempted work is handed back, without limit.
TRIES = {"infrastructure": 3, "hung": 2}
NO_FAILURE = ("stopped", "preempted")


class Attempt:
    """One try at a stage of a cell, in a folder of its own."""

    def __init__(self, run: Path, number: int, finished: Callable[[], bool]):
        self.run, self.number, self.finished = run, number, finished
        self.folder = run / "attempts" / f"{number:04}"

    def note(self, **facts: Any) -> None:
        """Add facts to attempt.json, which `ablate show` prints."""
        path = self.folder / "attempt.json"
        store.write_json(path, _read_attempt(path) | {"number": self.number} | facts)

    def publish(self, marker: str) -> None:
        """Move the files of this attempt into the run folder, and mark the stage finished, unless it is already."""
        if self.finished():
            return
        store.clear_stage(self.run, marker)
        (self.run / "FAILED.json").unlink(missing_ok=True)
        if marker == "TRAINED":
            store.mark_finished(self.folder, marker)  # if a kill interrupts from here on, `_complete` finishes
            _complete(self.run)
        else:
            _move(self.folder, self.run)
            store.mark_finished(self.run, marker)
        for attempt in (self.run / "attempts").glob("*/resume"):
            shutil.rmtree(attempt, ignore_errors=True)


@contextmanager
def begin_attempt(run: Path, stage: str, finished: Callable[[], bool]) -> Iterator[Attempt | None]:
    """Wait for the lock and yield the next attempt at a stage; None if the stage was finished meanwhile."""
    with hold(run):
        _complete(run)
        if finished():
            yield None
            return
        ended, attempt, cpu = {"outcome": "done"}, _next(run, finished), time.process_time()
        try:
            worker = {"host": socket.gethostname(), "pid": os.getpid(), "place": os.getcwd()}
            attempt.note(stage=stage, began=round(time.time(), 1), **worker)
            yield attempt
        except BaseException as error:
            ended = {"kind": kind_of(error), "outcome": f"{type(error).__name__}: {error}"}
            raise
        finally:
            with suppress(OSError):  # the disk is full, which was reported already
                spent = round(time.process_time() - cpu, 3)  # of this process
                attempt.note(ended=round(time.time(), 1), cpu_seconds=spent, **ended)


@contextmanager
def hold(run: Path, wait: bool = True) -> Iterator[bool]:
    """Hold the lock on a cell; yield False if another process holds it and `wait` is False."""
    with store.locked(run / ".claim", -1 if wait else 0, stopping.stop_requested) as is_free:
        if wait and not is_free:
            raise stopping.Stopped
        yield is_free


def is_held(run: Path) -> bool:
    """Return whether a process holds the lock on a cell."""
    if not any(run.glob(".claim*")):  # of either kind of lock
        return False
    with hold(run, wait=False) as is_free:
        return not is_free


def attempts(run: Path) -> list[dict[str, Any]]:
    """Return the contents of each attempt.json, in order."""
    return [document for path in sorted((run / "attempts").glob("*/attempt.json")) if (document := _read_attempt(path))]


def _read_attempt(path: Path) -> dict[str, Any]:
    """Return the contents of an attempt.json; empty if it is missing or damaged, which must not stop the run."""
    try:
        document = store.read_json(path)
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def latest_attempt(run: Path) -> str:
    """Return the folder name of the latest attempt; empty before the first one."""
    return max((path.name for path in (run / "attempts").glob("[0-9]*")), default="")


def current_folder(run: Path) -> Path:
    """Return the latest attempt's folder while it trains or if it failed; the run folder once its files moved there."""
    last = max((run / "attempts").glob("[0-9]*"), default=run)
    return last if (last / "metrics.jsonl").exists() else run


def _complete(run: Path) -> None:
    """Finish publishing a training whose process was killed between two files; the marker is moved last."""
    for marker in (run / "attempts").glob("*/TRAINED"):
        _move(marker.parent, run)
        os.replace(marker, run / marker.name)


def _move(folder: Path, run: Path) -> None:
    for path in sorted(folder.iterdir()):
        if path.name not in store.NOT_COVERED and not path.name.startswith("."):
            os.replace(path, run / path.name)


def _next(run: Path, finished: Callable[[], bool]) -> Attempt:
    """Create the folder of the next attempt; mark the latest one as lost if it recorded no end."""
    last = latest_attempt(run)
    path = run / "attempts" / last / "attempt.json"
    if (document := _read_attempt(path)) and "ended" not in document:
        store.write_json(path, document | {"outcome": "lost"})
    number = 1 + int(last or 0)
    while True:
        attempt = Attempt(run, number, finished)
        try:
            attempt.folder.mkdir(parents=True)
            return attempt
        except FileExistsError:  # where locks do not hold, another process has just begun it
            number += 1


def kind_of(error: BaseException) -> str:
    """Return the kind of a failure, which decides how often it is tried again."""
    if isinstance(error, stopping.Stopped) and stopping.is_preempted():
        return "preempted"
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return "memory"
    if "can't allocate memory" in str(error):
        return "memory"
    return str(getattr(error, "kind", "infrastructure" if isinstance(error, OSError) else "code"))


def report_loss(run: Path, kind: str, error: str) -> dict[str, Any]:
    """Write and return the failure report of an attempt whose processes died, unless another works on the cell now."""
    report = {"kind": kind, "error": error}
    with suppress(OSError, ValueError), hold(run, wait=False) as is_free:  # a full disk; no attempt yet
        if is_free:
            store.write_json(run / "FAILED.json", report)
            latest = Attempt(run, int(latest_attempt(run)), lambda: False)
            if "ended" not in _read_attempt(latest.folder / "attempt.json"):
                latest.note(kind=kind, outcome=error, ended=round(time.time(), 1))
    return report


def lost_in_a_row(run: Path) -> int:
    """Count the latest trainings that were lost, with their machine or all their processes, before a new checkpoint."""
    count, before = 0, None
    for attempt in attempts(run):
        if attempt.get("stage") == "evaluate":
            continue
        checkpoint = _checkpoint(run, attempt)
        is_in_vain = "ended" not in attempt and checkpoint in (None, before)
        count, before = count + 1 if is_in_vain else 0, checkpoint
    return count


def _checkpoint(run: Path, attempt: dict[str, Any]) -> int | None:
    """Return what identifies the checkpoint of an attempt, which begins with that of an earlier one; None without."""
    with suppress(OSError, KeyError):
        return (run / "attempts" / f"{attempt['number']:04}" / "resume" / "state.pt").stat().st_ino
    return None


def invalidate_damaged(run: Path) -> str:
    """Remove the markers of stages with changed files, so that they run again; return the reason, empty if none."""
    if not run.is_dir():
        return ""
    with hold(run, wait=False) as is_free:
        damaged = {marker: store.damage(run, marker, thorough=True) for marker in ("DONE", "TRAINED")}
        markers = [marker for marker, reason in damaged.items() if reason and os.path.lexists(run / marker)]
        if not markers or not is_free:
            return ""
        for marker in markers:
            store.remove(run / marker)
    return str(damaged[markers[-1]])
