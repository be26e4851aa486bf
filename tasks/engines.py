"""Engines run the work of cells; where it runs never changes a number.

`local`: one warm worker process a slot, pinned to its device, that has imported torch once, ends when its parent does,
and is replaced when it dies. `inline`: one cell after another in this process, to debug.
Workers know nothing of Prefect.
"""

import multiprocessing
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any, ClassVar, Literal

from contrastive.errors import UserError

EngineName = Literal["local", "inline"]


class WorkerLost(RuntimeError):
    """The process that did the work died: killed, out of memory, or a crash below Python."""


class Stopped(RuntimeError):
    """The grid was stopped while this work ran or waited; nothing is wrong with the cell."""


class Watch:
    """Looks at work while it runs: tells what it finds, and notices when nothing has changed for too long."""

    def __init__(self, progress: Callable[[], object], patience: float):
        self.progress, self.patience = progress, patience
        self.seen, self.since = progress(), time.monotonic()

    def look(self) -> str:
        """Why the work is to be ended; empty as long as it goes on."""
        if (now := self.progress()) != self.seen:
            self.seen, self.since = now, time.monotonic()
        idle = time.monotonic() - self.since
        return f"no step ended for {idle:.0f} s: taken for hung, and killed" if idle > self.patience else ""


class Slot:
    """A device, or a share of the cores, and the process that works on it."""

    def __init__(self, environment: dict[str, str]):
        self.environment, self.closed = environment, False
        self.pool = self._start()

    def _start(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(1, mp_context=context, initializer=_become_worker, initargs=(self.environment,))

    def run(self, work: Callable[..., Any], *arguments: Any, watch: "Watch | None" = None) -> Any:
        """Do the work in this slot's process, looking every other second whether it goes on; a dead one is replaced."""
        why = "the worker process died (killed, or out of memory)"
        try:
            future: Future[Any] = self.pool.submit(work, *arguments)
            while True:
                try:
                    return future.result(timeout=2.0)
                except TimeoutError:
                    if future.done():
                        raise
                    if watch is not None and (hung := watch.look()):
                        why, watch = hung, None
                        self._kill()
        except BrokenProcessPool as error:
            if self.closed:
                raise Stopped("stopped; the same command goes on from here") from None
            self.pool.shutdown(wait=False)
            self.pool = self._start()
            raise WorkerLost(why) from error

    def _kill(self) -> None:
        for process in list((self.pool._processes or {}).values()):
            process.kill()

    def close(self) -> None:
        self.closed = True
        for process in list((self.pool._processes or {}).values()):
            process.terminate()
        self.pool.shutdown(wait=True, cancel_futures=True)


class Inline:
    """The slot of the `inline` engine: this very process."""

    environment: ClassVar[dict[str, str]] = {}

    def run(self, work: Callable[..., Any], *arguments: Any, watch: Watch | None = None) -> Any:
        return work(*arguments)

    def close(self) -> None:
        pass


class Free:
    """Slots that are free. Who asks first is served first, so that one who needs several is not starved."""

    def __init__(self, slots: list[Slot] | list[Inline]):
        self.slots: list[Slot | Inline] = list(slots)
        self.count = len(slots)
        self.turn, self.changed = threading.Lock(), threading.Condition()

    @contextmanager
    def take(self, number: int) -> Iterator[list[Slot | Inline]]:
        assert number <= self.count, "`room_for` is asked before a grid begins"
        with self.turn, self.changed:
            self.changed.wait_for(lambda: len(self.slots) >= number)
            taken, self.slots = self.slots[:number], self.slots[number:]
        try:
            yield taken
        finally:
            with self.changed:
                self.slots += taken
                self.changed.notify_all()


class Engine:
    """Training waits for a device, evaluation for a share of the cores; without a GPU the two are the same slots."""

    def __init__(self, train: list[Slot] | list[Inline], evaluate: list[Slot] | list[Inline]):
        self.slots = {id(slot): slot for slot in (*train, *evaluate)}
        self.train = Free(train)
        self.evaluate = self.train if evaluate is train else Free(evaluate)
        self.stopped = False

    def run(
        self,
        stage: str,
        work: Callable[..., Any],
        *arguments: Any,
        slots: int = 1,
        watch: Watch | None = None,
    ) -> Any:
        """Do the work in a process of the first of so many slots; told the devices of all where there are several."""
        free = self.train if stage == "train" else self.evaluate
        with free.take(slots) as taken:
            self.check()
            if slots > 1:
                devices = [slot.environment.get("CUDA_VISIBLE_DEVICES", "") for slot in taken]
                work = partial(work, devices=",".join(filter(None, devices)))
            result = taken[0].run(work, *arguments, watch=watch)
            self.check()
            return result

    def room_for(self, processes: int) -> None:
        """Raises where a cell of so many processes could never begin."""
        if processes > self.train.count:
            raise UserError(
                f"a cell of {processes} processes needs as many slots, and this engine has {self.train.count}: lower "
                "training.processes, raise resources.slots, or take a machine with more devices"
            )

    def check(self) -> None:
        if self.stopped:
            raise Stopped("stopped; the same command goes on from here")

    def stop(self) -> None:
        """End every process now. What ran or waits here raises `Stopped`."""
        self.stopped = True
        for slot in self.slots.values():
            slot.close()


@contextmanager
def start(name: EngineName, slots: int | None, threads: int) -> Iterator[Engine]:
    """The engine `name` over the devices of this machine, stopped with all its processes at the end."""
    engine = _inline() if name == "inline" else _local(slots, threads)
    try:
        with _ctrl_c(engine):
            yield engine
    finally:
        engine.stop()


@contextmanager
def _ctrl_c(engine: Engine) -> Iterator[None]:
    """Ctrl-C stops the engine even where a library swallows the exception that it raises in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def handle(number: int, frame: FrameType | None) -> None:
        engine.stopped = True
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _inline() -> Engine:
    here = [Inline()]
    return Engine(here, here)


def _local(slots: int | None, threads: int) -> Engine:
    devices, cores = gpus(), len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not devices:
        shared = [Slot({"OMP_NUM_THREADS": str(threads)}) for _ in range(slots or max(1, cores // threads))]
        return Engine(shared, shared)
    pinned = [devices[i % len(devices)] for i in range(slots or len(devices))]
    train = [Slot({"CUDA_VISIBLE_DEVICES": device, "OMP_NUM_THREADS": str(threads)}) for device in pinned]
    evaluate = [Slot({"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}) for _ in range(max(1, cores // 4))]
    return Engine(train, evaluate)


def gpus() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them, without importing torch."""
    if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [device for device in visible.split(",") if device and device != "-1"]
    try:
        listed = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [str(i) for i, line in enumerate(listed.stdout.splitlines()) if line.startswith("GPU ")]


def _become_worker(environment: dict[str, str]) -> None:
    """Pin this process to its device, leave Ctrl-C to the parent, and never outlive it."""
    os.environ.update(environment, TOKENIZERS_PARALLELISM="false", TRANSFORMERS_VERBOSITY="error")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what CUDA needs to repeat its own sums
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)
