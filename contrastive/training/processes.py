"""Fork worker processes from a server that has imported everything; they end when the process that started them
ends."""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from multiprocessing import connection, forkserver
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from contrastive.training import REPRODUCIBLE

PRELOADED = "contrastive.training.preloaded"
LOST = 255  # exit code reported when the fork server itself was killed


class JobFailed(RuntimeError):
    """A process of the cell failed. `report` is its failure report, or one derived from its exit code."""

    def __init__(self, report: dict[str, Any]):
        super().__init__(report["error"])
        self.report, self.kind = report, report["kind"]


def start_fork_server(*more: str) -> ForkServerContext:
    """Let the server that all workers are forked from import what they need, unless it runs already; return without
    waiting for it. `more`: further modules to import."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([PRELOADED, *more])
    forkserver.ensure_running()
    return context


@contextlib.contextmanager
def fork_processes(
    work: Callable[..., None],
    arguments: tuple[Any, ...],
    environments: Mapping[Path, dict[str, str]],
    preload: tuple[str, ...],
) -> Iterator[Callable[[float], list[int | None]]]:
    """Run `work` in a process for each file for stderr and its environment; none of them outlives the block.

    Yield a function that waits up to some seconds and returns the exit codes. `preload`: modules for the fork server to
    import, if it is not running yet.
    """
    context = start_fork_server(*preload)
    started = [
        context.Process(target=_run_worker, args=(work, arguments, os.getcwd(), stderr, environment))
        for stderr, environment in environments.items()
    ]

    def exit_codes(timeout: float) -> list[int | None]:
        connection.wait([process.sentinel for process in started if process.exitcode is None], timeout)
        return [process.exitcode for process in started]

    try:
        for process in started:
            process.start()
        yield exit_codes
    finally:
        for process in started:
            if process.pid is not None:
                process.kill()
                process.join()


def _run_worker(
    work: Callable[..., None], arguments: tuple[Any, ...], directory: str, stderr: Path, environment: dict[str, str]
) -> None:
    set_process_name("ablate-job")
    os.setsid()
    for number, path in ((1, Path(os.devnull)), (2, stderr)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
        os.close(file)
    os.chdir(directory)
    apply_worker_environment(environment)
    work(*arguments)


def apply_worker_environment(environment: dict[str, str]) -> None:
    """Make a freshly forked process behave as if started with this environment, and end it with its parent."""
    for number in (signal.SIGINT, signal.SIGTERM):  # sent by terminals and Prefect to the whole process group
        signal.signal(number, signal.SIG_IGN)
    os.environ.clear()
    os.environ.update(environment)
    os.environ.setdefault(*REPRODUCIBLE)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_exit_with_parent, args=(parent, os.getppid()), daemon=True).start()
    limit_threads(int(environment.get("OMP_NUM_THREADS") or 1))


def limit_threads(threads: int) -> None:
    """Limit the threads at run time: libraries read OMP_NUM_THREADS when they were loaded, before the fork."""
    import torch
    from threadpoolctl import threadpool_limits

    threadpool_limits(threads)
    torch.set_num_threads(threads)


def _exit_with_parent(parent: BaseProcess, fork_server: int) -> None:
    """Exit when the process that requested this one ends, or the fork server, which reports the exit code."""
    while parent.is_alive() and os.getppid() == fork_server:
        parent.join(1)
    os._exit(1)


def set_process_name(name: str) -> None:
    """Set the name that tools such as `ps` show, on systems with /proc."""
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(name, encoding="ascii")
