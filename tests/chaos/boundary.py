"""A cell from nothing to DONE, stopped where it asks the system for something: `python -m tests.chaos.boundary …`.

Each trial is a fork of this process, a worker that has done one cell before. In it the operations on files are
counted: what opens, makes, moves and removes by Python's audit events, what writes by the profiler's. At the chosen one
the process is killed, or the disk is full from there on. A second fork does the same work again without a fault.
"""

import errno
import json
import os
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import contrastive
from contrastive.config.cell import Cell
from contrastive.config.evaluation import Evaluation
from contrastive.grid.identity import cell_id, identity
from contrastive.runs import store
from contrastive.training.job import TrainRequest
from tasks import worker_calls
from tests.chaos import grid, soak

CHANGING = ("os.rename", "os.mkdir", "os.link", "os.remove", "os.rmdir", "os.chmod")
WRITING = ("write", "flush", "fsync", "sendfile")
FREEING = ("os.remove", "os.rmdir", "os.chmod")  # what a full disk still does
CHECKPOINT_EVERY = 4
OURS = Path(contrastive.__file__).parent
EVALUATION = Evaluation(metrics=("accuracy",))


class Boundary:
    """Counts the operations of this thread below a folder, and does something before the chosen one."""

    def __init__(self, home: Path, at: int, fault: Callable[[str], None]):
        self.home, self.at, self.fault = str(home), at, fault
        self.thread, self.seen = threading.get_ident(), list[str]()
        sys.addaudithook(self.audit)
        sys.setprofile(self.profile)

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in CHANGING or (event == "open" and (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR)):
            path = os.fsdecode(arguments[0]) if isinstance(arguments[0], str | bytes | os.PathLike) else ""
            if path.startswith(self.home) and threading.get_ident() == self.thread:
                self.meet(event, sys._getframe(1))

    def profile(self, frame: Any, event: str, called: Any) -> None:
        if event == "c_call" and called.__name__ in WRITING:
            name = getattr(getattr(called, "__self__", None), "name", "")  # of a file; of a module there is none
            if called.__name__ in ("fsync", "sendfile") or str(name).startswith(self.home) or isinstance(name, int):
                self.meet(called.__name__, frame)

    def meet(self, what: str, frame: Any) -> None:
        self.seen.append(f"{what} in {place(frame)}")
        if len(self.seen) == self.at:
            self.fault(what)


def place(frame: Any) -> str:
    """The nearest function of ours, with those that called it."""
    found: list[str] = []
    while frame is not None and len(found) < 3:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(OURS):
            found.append(f"{path.stem}.{frame.f_code.co_name}")
        frame = frame.f_back
    return " < ".join(found)


def kill(_what: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fill(what: str) -> None:
    """No byte more from here on: this operation says so, and the system says it of every later one that writes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    if what not in FREEING:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "a file")


FAULTS = {"kill": kill, "full": fill}


def trial(home: Path, cell: Cell, at: int, fault: Callable[[str], None]) -> tuple[int, dict[str, Any]]:
    """Train and evaluate in a fork; its exit code, and what it said before it ended."""
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.environ["ABLATE_HOME"] = str(home)
            name, boundary = cell_id(identity(cell)), Boundary(home, at, fault)
            report = worker_calls.train(TrainRequest(cell, "a cell", CHECKPOINT_EVERY), name)
            report = report or worker_calls.evaluate(name, EVALUATION)
            sys.setprofile(None)
            said = {"report": report, "seen": boundary.seen}
        except BaseException:
            said = {"crash": traceback.format_exc()}
        os.write(writer, json.dumps(said).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = json.loads(pipe.read() or b"{}")
    return os.waitpid(child, 0)[1], said


def main() -> None:
    folder, cell = Path(sys.argv[1]), Cell.model_validate_json(Path(sys.argv[2]).read_text()).canonical()
    os.environ["ABLATE_HOME"] = str(folder / "before")
    other = cell.model_copy(update={"seed": 1})
    assert worker_calls.train(TrainRequest(other, "another", CHECKPOINT_EVERY), cell_id(identity(other))) is None
    assert worker_calls.evaluate(cell_id(identity(other)), EVALUATION) is None
    _, undisturbed = trial(folder / "truth", cell, 0, kill)
    truth = grid.results(folder / "truth")
    assert truth and undisturbed["report"] is None, undisturbed
    for at, mode in chosen(undisturbed["seen"], int(sys.argv[3])):
        home = folder / f"{mode} {at}"
        code, first = trial(home, cell, at, FAULTS[mode])
        believed = grid.results(home)
        _, again = trial(home, cell, 0, kill)
        (run,) = home.glob("runs/*")
        told = {
            "mode": mode,
            "at": undisturbed["seen"][at - 1],
            "killed": code == signal.SIGKILL,
            "report": first.get("report"),
            "crash": first.get("crash", "") + again.get("crash", ""),
            "believed": believed in ({}, truth),
            "finished": again.get("report") is None and grid.results(home) == truth,
            "trainings": soak.trainings(run),
            # counted at the log, since the lines of a lost one are gone
            "extra": steps(undisturbed["seen"][: at - 1]) + steps(again.get("seen", [])) - steps(undisturbed["seen"]),
            "failed": store.failure(run),
        }
        print(json.dumps(told), flush=True)


def steps(seen: list[str]) -> int:
    return sum(what.startswith("write in train.steps <") for what in seen)


def chosen(seen: list[str], share: int) -> list[tuple[int, str]]:
    """Every operation with every fault; or one in so many of those that differ in what and where."""
    if share == 1:
        return [(at, mode) for at in range(1, len(seen) + 1) for mode in FAULTS]
    first = {what: at for at, what in reversed(list(enumerate(seen, 1)))}
    last = {what: at for at, what in enumerate(seen, 1)}
    places = sorted({*first.values(), *last.values()})
    return [(at, mode) for start, mode in enumerate(FAULTS) for at in places[start * share // 2 :: share]]


if __name__ == "__main__":
    main()
