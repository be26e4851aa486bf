"""Where the processes of cells come from: one that has imported everything, and forks for each of them.

It has no threads and has touched no device, or its children would be broken. It ends with the process that it works
for, and they end with it, whatever ended that one. A warm worker forks its own when it is as fresh; any other process,
when it needs one, waits for the imports of a new one.
"""

import contextlib
import importlib
import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NoReturn

ALONE = "import sys; from contrastive.stages import fork_server; fork_server.serve_alone(int(sys.argv[1]))"


class ForkServerLost(RuntimeError):
    """The server died; its children end too, and nobody knows how they would have ended."""


@dataclass(frozen=True)
class NewProcess:
    """A process to begin: what it does, and what it is to see."""

    work: Callable[..., None]
    arguments: tuple[Any, ...]
    environment: dict[str, str]
    directory: str
    stderr: Path
    before: tuple[str, ...] = ()  # modules that cost seconds, and few need: imported for this one and all later ones


class ForkServer:
    """The line to a server, from the process that it works for."""

    def __init__(self, line: Connection):
        self.line, self.lock, self.names = line, threading.Lock(), itertools.count()
        self.codes: dict[int, int | None] = {}
        self.lost = False

    def begin(self, new: NewProcess) -> int:
        name = next(self.names)
        self.codes[name] = None
        self._tell((name, new))
        return name

    def look(self, patience: float) -> dict[int, int | None]:
        """The exit codes of all, None of those that live; waits a little for one to end."""
        with self.lock:
            try:
                while self.line.poll(patience):
                    name, code = self.line.recv()
                    self.codes[name], patience = code, 0.0
            except (EOFError, OSError) as error:
                self.lost = True
                raise ForkServerLost(
                    "the process that begins those of cells died (killed, or out of memory)"
                ) from error
        return self.codes

    def end(self, names: list[int]) -> None:
        """Kill them, and wait until they are gone."""
        for name in names:
            self._tell((name, None))
        while None in [self.look(0.2)[name] for name in names]:
            pass
        for name in names:
            del self.codes[name]

    def _tell(self, what: tuple[int, NewProcess | None]) -> None:
        with contextlib.suppress(OSError), self.lock:  # `look` says that it is lost
            self.line.send(what)


_kept: ForkServer | None = None  # of this process
_keeping = threading.Lock()


@contextlib.contextmanager
def forked(processes: list[NewProcess]) -> Iterator[Callable[[float], list[int | None]]]:
    """These processes, none of which outlives the block; gives what waits a little and tells their exit codes."""
    server = _own_server()
    names = [server.begin(new) for new in processes]
    try:
        yield lambda patience: [server.look(patience)[name] for name in names]
    finally:
        if not server.lost:
            server.end(names)


def _own_server() -> ForkServer:
    global _kept
    with _keeping:
        if _kept is not None:
            with contextlib.suppress(ForkServerLost):
                _kept.look(0.0)
        if _kept is None or _kept.lost:
            ours, theirs = multiprocessing.Pipe()
            command = [sys.executable, "-c", ALONE, str(theirs.fileno())]
            subprocess.Popen(
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
            ).returncode = 0  # nobody asks how it ended
            theirs.close()
            _kept = ForkServer(ours)
        return _kept


def fork() -> None:
    """Have one ready, in a process that has just been forked itself and done nothing yet."""
    global _kept
    ours, theirs = multiprocessing.Pipe()
    if os.fork() == 0:
        ours.close()
        serve(theirs)
    theirs.close()
    _kept = ForkServer(ours)


def serve_alone(line: int) -> NoReturn:
    from contrastive.stages import preloaded  # noqa: F401

    serve(Connection(line))


def serve(line: Connection) -> NoReturn:
    """Begin and end processes as told, and tell how they ended, as long as anybody is there to tell."""
    try:
        _serve(line)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)  # at once: an interpreter that ends in peace waits for its children


def _serve(line: Connection) -> None:
    be_called("ablate-forks")
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    living: dict[int, BaseProcess] = {}
    with contextlib.suppress(EOFError, OSError):
        while True:
            ready = wait([line, *(process.sentinel for process in living.values())])
            if line in ready:
                name, new = line.recv()
                if new is not None:
                    living[name] = _fork_one(new, line)
                elif name in living:
                    living[name].kill()
            for name, process in list(living.items()):
                if process.sentinel in ready:
                    process.join()
                    line.send((name, living.pop(name).exitcode))


def _fork_one(new: NewProcess, line: Connection) -> BaseProcess:
    if not new.environment.get("CUDA_VISIBLE_DEVICES", "all"):  # else such a module may touch a device
        for module in new.before:
            with contextlib.suppress(ImportError):  # which the process that needs it will say
                importlib.import_module(module)
    process = multiprocessing.get_context("fork").Process(target=_live, args=(new, line))
    process.start()
    return process


def _live(new: NewProcess, line: Connection) -> None:
    line.close()
    be_called("ablate-job")
    os.setsid()
    stderr = os.open(new.stderr, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(stderr, 2)
    os.close(stderr)
    os.chdir(new.directory)
    become(new.environment)
    new.work(*new.arguments)


def become(environment: dict[str, str]) -> None:
    """Let a process that was just forked be as one that began with this environment, and end with its parent."""
    for number in (signal.SIGINT, signal.SIGTERM):  # a terminal and Prefect send them to the whole group
        signal.signal(number, signal.SIG_IGN)
    os.environ.clear()
    os.environ.update(environment)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent, os.getppid()), daemon=True).start()
    compute_with(int(environment.get("OMP_NUM_THREADS") or 1))


def compute_with(threads: int) -> None:
    """What libraries read in OMP_NUM_THREADS when they are loaded, which was before the fork."""
    import torch
    from threadpoolctl import threadpool_limits

    threadpool_limits(threads)
    torch.set_num_threads(threads)


def _end_with(parent: BaseProcess, forked_by: int) -> None:
    """With the process that asked for this one, and with the one that forked it, which alone could tell how it ends."""
    while parent.is_alive() and os.getppid() == forked_by:
        parent.join(1)
    os._exit(1)


def be_called(name: str) -> None:
    """Among the processes of a machine, where it shows such names."""
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(name, encoding="ascii")
