"""Who works on a cell: one holder at a time, among all processes and machines that share the store.

A holder keeps a lock on the cell for its whole attempt, which the system frees when the holder ends, whatever ended it.
It works in a folder of its own attempt; `publish` moves its files into the run folder. One that is stopped, but lives,
keeps the others waiting until its engine kills it after `resources.hung_after`.
"""

import fcntl
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from contrastive.runs import stopping, store

LOOK_EVERY = 0.5  # seconds between two looks at a lock that somebody else holds


class Attempt:
    """One try at a stage of a cell, in a folder of its own."""

    def __init__(self, run: Path, number: int):
        self.run, self.number = run, number
        self.folder = run / "attempts" / f"{number:04}"

    def note(self, **facts: Any) -> None:
        """Add to what `ablate show` tells of this attempt."""
        path = self.folder / "attempt.json"
        store.write_json(path, _known(path) | {"number": self.number} | facts)

    def publish(self, marker: str) -> None:
        """Move what this attempt made into the run folder, and mark the stage finished."""
        store.clear_stage(self.run, marker)
        (self.run / "FAILED.json").unlink(missing_ok=True)
        if marker == "TRAINED":
            store.mark_finished(self.folder, marker)  # from here on, `_complete` ends what a kill interrupts
            _complete(self.run)
        else:
            _move(self.folder, self.run)
            store.mark_finished(self.run, marker)
        for attempt in (self.run / "attempts").glob("*/resume"):
            shutil.rmtree(attempt, ignore_errors=True)


@contextmanager
def begin_attempt(run: Path, stage: str, finished: Callable[[], bool]) -> Iterator[Attempt | None]:
    """The next attempt at a stage, once nobody else holds the cell; None where it has been finished meanwhile."""
    with hold(run):
        _complete(run)
        if finished():
            yield None
            return
        outcome, taken = "done", _next(run)
        try:
            taken.folder.mkdir(parents=True)
            here = {"host": socket.gethostname(), "pid": os.getpid(), "place": os.getcwd()}
            taken.note(stage=stage, began=round(time.time(), 1), **here)
            yield taken
        except BaseException as error:
            outcome = f"{type(error).__name__}: {error}"
            raise
        finally:
            with suppress(OSError):  # the disk is full: that is told already
                taken.note(ended=round(time.time(), 1), outcome=outcome)


@contextmanager
def hold(run: Path, wait: bool = True) -> Iterator[bool]:
    """Hold a cell; false where somebody else does who is not waited for."""
    path = run / ".claim"
    run.mkdir(parents=True, exist_ok=True)
    if path.is_dir():  # nobody could hold a lock on it
        shutil.rmtree(path, ignore_errors=True)
    with open(path, "a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not wait:
                    yield False
                    return
            if stopping.stop_requested():
                raise stopping.Stopped
            time.sleep(LOOK_EVERY)
        yield True


def is_held(run: Path) -> bool:
    """Whether somebody works on a cell."""
    if not (run / ".claim").exists():
        return False
    with hold(run, wait=False) as is_free:
        return not is_free


def attempts(run: Path) -> list[dict[str, Any]]:
    """What is known of each attempt, in their order."""
    return [document for path in sorted((run / "attempts").glob("*/attempt.json")) if (document := _known(path))]


def _known(path: Path) -> dict[str, Any]:
    """What an attempt says of itself; a file that is missing or harmed tells nothing, and stops nobody."""
    try:
        document = store.read_json(path)
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def latest_attempt(run: Path) -> str:
    """The name of the latest attempt; empty before the first one."""
    return max((path.name for path in (run / "attempts").glob("[0-9]*")), default="")


def current_folder(run: Path) -> Path:
    """The folder of the latest attempt while it trains, or where it failed; the run folder once it took its files."""
    last = max((run / "attempts").glob("[0-9]*"), default=run)
    return last if (last / "metrics.jsonl").exists() else run


def _complete(run: Path) -> None:
    """End the publishing of a training whose holder may have been killed between two files; the marker goes last."""
    for marker in (run / "attempts").glob("*/TRAINED"):
        _move(marker.parent, run)
        os.replace(marker, run / marker.name)


def _move(made: Path, run: Path) -> None:
    for path in sorted(made.iterdir()):
        if path.name not in store.NOT_COVERED and not path.name.startswith("."):
            os.replace(path, run / path.name)


def _next(run: Path) -> Attempt:
    """The attempt after the latest one, which was lost where it says of no end."""
    last = latest_attempt(run)
    path = run / "attempts" / last / "attempt.json"
    if (document := _known(path)) and "ended" not in document:
        store.write_json(path, document | {"outcome": "lost"})
    return Attempt(run, 1 + int(last or 0))


def invalidate_damaged(run: Path) -> str:
    """Take its marker from each stage whose files are not the ones it left, to be done again; why, or nothing."""
    if not run.is_dir():
        return ""
    with hold(run, wait=False) as is_free:
        wrong = {marker: store.damage(run, marker, thorough=True) for marker in ("DONE", "TRAINED")}
        markers = [marker for marker, why in wrong.items() if why and os.path.lexists(run / marker)]
        if not markers or not is_free:
            return ""
        for marker in markers:
            store.remove(run / marker)
    return str(wrong[markers[-1]])


def latest_attempt_with(run: Path, names: Iterable[str]) -> Path | None:
    """The latest attempt with something to go on from."""
    for path in sorted((run / "attempts").glob("[0-9]*"), reverse=True):
        if all((path / name).exists() for name in names):
            return path
    return None
