"""A slot: a device or a share of the cores, and the warm worker process that uses it.

Workers are forked from a process that has imported torch, end with their parent, and are replaced when they die.
"""

import os
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from contrastive.runs.stopping import Stopped
from contrastive.training import processes
from tasks.engines.types import LOOK_EVERY, Watch, WorkerLost


class Slot:
    def __init__(self, environment: dict[str, str]):
        self.environment, self.closed = environment, False
        self.pool = self._start()

    def _start(self) -> ProcessPoolExecutor:
        context = processes.start_fork_server()
        environment = dict(os.environ) | self.environment
        return ProcessPoolExecutor(1, mp_context=context, initializer=_become_worker, initargs=(environment,))

    def run(self, work: Callable[..., Any], *arguments: Any, watch: Watch | None = None) -> Any:
        """Run `work` in this slot's process, while `watch` checks its progress. A process that died is replaced."""
        why = "the worker process died (killed, or out of memory)"
        try:
            future = self._begin(work, *arguments)
            while True:
                try:
                    return future.result(timeout=LOOK_EVERY)
                except TimeoutError:
                    if future.done():  # the work itself raised TimeoutError
                        raise
                    if watch is not None and (hung := watch.look()):
                        why, watch = hung, None  # killed; now wait until the pool notices
                        self._kill()
        except (BrokenProcessPool, CancelledError) as error:  # cancelled: the slot was closed before a worker started
            if self.closed:
                raise Stopped from None
            self._replace()
            raise WorkerLost(why) from error

    def _begin(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        for patience in (0.2, 2.0, 0.0):
            try:
                return self.pool.submit(work, *arguments)
            except (EOFError, OSError) as error:  # the fork server has just died; nothing has begun
                if self.closed:
                    raise Stopped from None
                why = error
                time.sleep(patience)
                self._replace()
            except RuntimeError:  # the pool is shut down
                if self.closed:
                    raise Stopped from None
                raise
        raise WorkerLost("no worker process could be started") from why

    def _replace(self) -> None:
        self.pool.shutdown(wait=False)
        self.pool = self._start()

    def _kill(self) -> None:
        for process in list((self.pool._processes or {}).values()):
            process.kill()

    def close(self) -> None:
        self.closed = True
        self._kill()
        self.pool.shutdown(wait=True, cancel_futures=True)


def _become_worker(environment: dict[str, str]) -> None:
    """Pin this process to its device; let it ignore Ctrl-C and end with its parent."""
    processes.set_process_name("ablate-worker")
    environment |= {"TOKENIZERS_PARALLELISM": "false", "TRANSFORMERS_VERBOSITY": "error"}
    environment.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    processes.apply_worker_environment(environment)
