"""Who works on a cell: one holder at a time, among all processes and machines that share the store.

A holder works in a folder of its own attempt and beats while it does. One that is dead, or was paused for so long that
it no longer beats, loses the claim to the next one; when it wakes up, nothing of it is taken over: `publish` moves an
attempt's files into the run folder only while the claim is still its own. Time is measured by the clock of the one who
waits, so that clocks may jump or disagree.
"""

import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from contrastive.runs import stopping, store

LEASE = 60.0  # seconds without a beat after which a holder is taken for dead
BEATS = 6  # a lease


class Superseded(RuntimeError):
    """Somebody else has taken this cell over: this attempt was paused, or cut off from the store, for too long."""


class Attempt:
    """One try at a stage of a cell, in a folder of its own; its holder beats until it ends."""

    def __init__(self, run: Path, number: int):
        self.run, self.number = run, number
        self.folder = run / "attempts" / f"{number:04}"
        self.lost = False
        self._ended = threading.Event()
        self._beating = threading.Thread(target=self._beat, daemon=True)

    def begin(self, stage: str) -> None:
        self.folder.mkdir(parents=True)
        self.note(stage=stage, began=round(time.time(), 1), place=os.getcwd())
        self._beating.start()

    def note(self, **facts: Any) -> None:
        """Add to what `ablate show` tells of this attempt."""
        path = self.folder / "attempt.json"
        store.write_json(path, (_known(path) or _here()) | {"number": self.number} | facts)

    def check(self) -> None:
        """Raises where the claim was lost, so that a holder that woke up stops soon."""
        if self.lost:
            raise Superseded(f"attempt {self.number} at {self.run.name} was taken over by another one")

    def publish(self, marker: str) -> None:
        """Move what this attempt made into the run folder, and mark the stage finished; refused once it is too late."""
        with store.locked(self.run / ".claim"):
            if _read(self.run).get("number") != self.number:
                self.lost = True
            self.check()
            store.forget(self.run, marker)
            (self.run / "FAILED.json").unlink(missing_ok=True)
            if marker == "TRAINED":
                store.mark_finished(self.folder, marker)  # from here on, `_complete` ends what a kill interrupts
                _complete(self.run)
            else:
                _move(self.folder, self.run)
                store.mark_finished(self.run, marker)
        for attempt in (self.run / "attempts").glob("*/resume"):
            shutil.rmtree(attempt, ignore_errors=True)

    def end(self) -> None:
        self._ended.set()
        if self._beating.ident is not None:  # else its folder could not be made: the disk is full
            self._beating.join()
        with store.locked(self.run / ".claim"):
            if _read(self.run).get("number") == self.number:
                (self.run / "claim.json").unlink(missing_ok=True)

    def _beat(self) -> None:
        count = 0
        while not self._ended.wait(LEASE / BEATS):
            count += 1
            try:
                with store.locked(self.run / ".claim"):
                    claim = _read(self.run)
                    if claim.get("number") != self.number:
                        self.lost = True
                        return
                    store.write_json(self.run / "claim.json", claim | {"beat": count})
            except OSError:  # a full disk or a lost mount: if it lasts, the claim is lost, and `publish` will say so
                continue


@contextmanager
def attempt(run: Path, stage: str, finished: Callable[[], bool]) -> Iterator[Attempt | None]:
    """The next attempt at a stage, once nobody else holds the cell; None where it has been finished meanwhile."""
    taken = _take(run, finished)
    if taken is None:
        yield None
        return
    outcome = "done"
    try:
        taken.begin(stage)
        yield taken
    except BaseException as error:
        outcome = "superseded" if isinstance(error, Superseded) else f"{type(error).__name__}: {error}"
        raise
    finally:
        with suppress(OSError):  # the disk is full: that is told already
            taken.note(ended=round(time.time(), 1), outcome=outcome)
        taken.end()


def attempts(run: Path) -> list[dict[str, Any]]:
    """What is known of each attempt, in their order."""
    return [document for path in sorted((run / "attempts").glob("*/attempt.json")) if (document := _known(path))]


def _known(path: Path) -> dict[str, Any]:
    """What an attempt or a claim says of itself; a file that is missing or harmed tells nothing, and stops nobody."""
    try:
        document = store.read_json(path)
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def latest(run: Path) -> str:
    """The name of the latest attempt; empty before the first one."""
    return max((path.name for path in (run / "attempts").glob("[0-9]*")), default="")


def at_work(run: Path) -> Path:
    """The folder of the latest attempt while it trains, or where it failed; the run folder once it took its files."""
    latest = max((run / "attempts").glob("[0-9]*"), default=run)
    return latest if (latest / "metrics.jsonl").exists() else run


def _complete(run: Path) -> None:
    """End the publishing of a training whose holder may have been killed between two files; the marker goes last."""
    for marker in (run / "attempts").glob("*/TRAINED"):
        _move(marker.parent, run)
        os.replace(marker, run / marker.name)


def _move(made: Path, run: Path) -> None:
    for path in sorted(made.iterdir()):
        if path.name not in store.NOT_COVERED and not path.name.startswith("."):
            os.replace(path, run / path.name)


def _take(run: Path, finished: Callable[[], bool]) -> Attempt | None:
    seen, since = None, time.monotonic()
    while True:
        with store.locked(run / ".claim"):
            _complete(run)
            if finished():
                return None
            claim = _read(run)
            if (beat := (claim.get("number"), claim.get("beat"))) != seen:
                seen, since = beat, time.monotonic()
            if not claim or _gone(claim) or time.monotonic() - since > LEASE:
                numbers = (int(path.name) for path in (run / "attempts").glob("[0-9]*"))
                number = 1 + max(claim.get("number", 0), *numbers, 0)
                store.write_json(run / "claim.json", {"number": number, "beat": 0} | _here())
                _lost(run, claim)
                return Attempt(run, number)
        if stopping.revoked():
            raise stopping.Stopped
        time.sleep(min(1.0, LEASE / BEATS))


def is_held(run: Path) -> bool:
    """Whether somebody works on a cell, as far as one look tells: by the clock of the store, which may jump.

    Good enough to say so to people; who wants to take a claim over has to wait.
    """
    claim = _read(run)
    if not claim or _gone(claim):
        return False
    with tempfile.NamedTemporaryFile(dir=run, prefix=".now.") as now:
        return os.stat(now.name).st_mtime - os.stat(run / "claim.json").st_mtime < LEASE


def set_back(run: Path) -> str:
    """Take its marker from each stage whose files are not the ones it left, to be done again; why, or nothing."""
    if not run.is_dir():
        return ""
    with store.locked(run / ".claim"):
        wrong = {marker: store.damage(run, marker, thorough=True) for marker in ("DONE", "TRAINED")}
        markers = [marker for marker, why in wrong.items() if why and os.path.lexists(run / marker)]
        if not markers or is_held(run):
            return ""
        for marker in markers:
            store.remove(run / marker)
    return str(wrong[markers[-1]])


def _lost(run: Path, claim: dict[str, Any]) -> None:
    """Say of an attempt that never came to an end that it was lost."""
    path = run / "attempts" / f"{claim.get('number', 0):04}" / "attempt.json"
    if (document := _known(path)) and "ended" not in document:
        store.write_json(path, document | {"outcome": "lost"})


def _here() -> dict[str, Any]:
    return {"host": socket.gethostname(), "pid": os.getpid(), "born": _born(os.getpid()), "among": _among()}


def _gone(claim: dict[str, Any]) -> bool:
    """Whether the holder was a process of this machine that no longer exists; its number may be another one's now."""
    here = (claim["host"], claim["among"]) == (socket.gethostname(), _among())
    return bool(here and _born(claim["pid"]) != claim["born"])


def _among() -> str:
    """The processes among which a number names one: those of this machine, or of this container."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _born(pid: int) -> str:
    """When a process began, in ticks since the machine did, with the machine's own start; empty where there is none."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else f"{boot} {fields[19]}"


def _read(run: Path) -> dict[str, Any]:
    """The claim on a cell; one that does not say who holds it holds nothing."""
    claim = _known(run / "claim.json")
    return claim if {"host", "pid", "born", "among"} <= claim.keys() and isinstance(claim.get("number"), int) else {}


def leftovers(run: Path, names: Iterable[str]) -> Path | None:
    """The latest attempt with something to go on from."""
    for path in sorted((run / "attempts").glob("[0-9]*"), reverse=True):
        if all((path / name).exists() for name in names):
            return path
    return None
