"""A device, or a share of the cores, and the warm process that works on it.

It has imported torch once, ends when its parent does, and is replaced when it dies. It knows nothing of Prefect or Ray.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.process import BaseProcess
from typing import Any

from contrastive.permit import Stopped
from tasks.engines.types import LOOK_EVERY, Watch, WorkerLost


class Slot:
    def __init__(self, environment: dict[str, str]):
        self.environment, self.closed = environment, False
        self.pool = self._start()

    def _start(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(1, mp_context=context, initializer=_become_worker, initargs=(self.environment,))

    def run(self, work: Callable[..., Any], *arguments: Any, watch: Watch | None = None) -> Any:
        """Do the work in this slot's process, looking now and then whether it goes on; a dead one is replaced."""
        why = "the worker process died (killed, or out of memory)"
        try:
            future: Future[Any] = self.pool.submit(work, *arguments)
            while True:
                try:
                    return future.result(timeout=LOOK_EVERY)
                except TimeoutError:
                    if future.done():
                        raise
                    if watch is not None and (hung := watch.look()):
                        why, watch = hung, None
                        self._kill()
        except BrokenProcessPool as error:
            if self.closed:
                raise Stopped from None
            self.pool.shutdown(wait=False)
            self.pool = self._start()
            raise WorkerLost(why) from error

    def _kill(self) -> None:
        for process in list((self.pool._processes or {}).values()):
            process.kill()

    def close(self) -> None:
        self.closed = True
        self._kill()
        self.pool.shutdown(wait=True, cancel_futures=True)


def _become_worker(environment: dict[str, str]) -> None:
    """Pin this process to its device, leave it to the parent when to stop, and never outlive it."""
    os.environ.update(environment, TOKENIZERS_PARALLELISM="false", TRANSFORMERS_VERBOSITY="error")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what CUDA needs to repeat its own sums
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    for number in (signal.SIGINT, signal.SIGTERM):  # a terminal and Prefect send them to the whole group
        signal.signal(number, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)
