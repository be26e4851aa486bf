"""Processes that end with whoever asked for them; those of a cell are forked from one that has imported everything."""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

PRELOADED = "contrastive.training.preloaded"
LOST = 255  # the exit code of which the process that forks tells, when it was killed itself


@dataclass(frozen=True)
class ProcessSpec:
    """A process to begin: what it does, and what it is to see."""

    work: Callable[..., None]
    arguments: tuple[Any, ...]
    environment: dict[str, str]
    directory: str
    stderr: Path


@contextlib.contextmanager
def fork_processes(
    processes: list[ProcessSpec], preload: tuple[str, ...] = ()
) -> Iterator[Callable[[float], list[int | None]]]:
    """Run these processes, none of which outlives the block; gives what waits a little and tells their exit codes.

    `preload`: modules to import once for all of them, if none was begun here before.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([PRELOADED, *preload])
    started = [context.Process(target=_live, args=(new,)) for new in processes]

    def look(patience: float) -> list[int | None]:
        connection.wait([process.sentinel for process in started if process.exitcode is None], patience)
        return [process.exitcode for process in started]

    try:
        for process in started:
            process.start()
        yield look
    finally:
        for process in started:
            if process.pid is not None:
                process.kill()
                process.join()


def _live(new: ProcessSpec) -> None:
    set_process_name("ablate-job")
    os.setsid()
    for number, path in ((1, Path(os.devnull)), (2, new.stderr)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
        os.close(file)
    os.chdir(new.directory)
    apply_worker_environment(new.environment)
    new.work(*new.arguments)


def apply_worker_environment(environment: dict[str, str]) -> None:
    """Let a process that was just forked be as one that began with this environment, and end with its parent."""
    for number in (signal.SIGINT, signal.SIGTERM):  # a terminal and Prefect send them to the whole group
        signal.signal(number, signal.SIG_IGN)
    os.environ.clear()
    os.environ.update(environment)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent, os.getppid()), daemon=True).start()
    limit_threads(int(environment.get("OMP_NUM_THREADS") or 1))


def limit_threads(threads: int) -> None:
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


def set_process_name(name: str) -> None:
    """Among the processes of a machine, where it shows such names."""
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(name, encoding="ascii")
