"""Engines of this machine: `local`, which gives each cell a slot (a GPU or some cores), and `inline`, in this
process."""

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from contrastive.config import registry
from contrastive.config.cell import Cell
from contrastive.config.evaluation import Evaluation
from contrastive.config.experiment import Resources
from contrastive.errors import UserError
from contrastive.runs import stopping
from contrastive.runs.stopping import Stopped
from contrastive.training import processes as worker_processes
from contrastive.training.job import TrainRequest
from tasks.engines.types import LOOK_EVERY, Engine, Watch, WorkerLost

logger = logging.getLogger(__name__)


class Slot:
    """A device or a share of the cores, and the warm worker process that uses it.

    Workers are forked from a process that has imported torch, end with their parent, and are replaced when they die.
    """

    def __init__(self, environment: dict[str, str]):
        self.environment, self.closed = environment, False
        self.loaded = frozenset[str]()  # files of users that the process has imported
        self._start()

    def _start(self) -> None:
        context = worker_processes.start_fork_server()
        environment = dict(os.environ) | self.environment
        self.pool = ProcessPoolExecutor(1, mp_context=context, initializer=_become_worker, initargs=(environment,))

    def run(self, work: Callable[..., Any], *arguments: Any, watch: Watch | None = None) -> Any:
        """Run `work` in this slot's process, while `watch` checks its progress. A process that died is replaced, and so
        is one that has imported code of users that this work does not use: it may have changed anything."""
        needed = own_code(work, arguments)
        if self.loaded - needed and not self.closed:
            self.pool.shutdown(wait=True)
            self._start()
        self.loaded = needed
        try:
            future = self.pool.submit(_with_imports, work, *arguments)
        except (EOFError, OSError, RuntimeError) as error:  # the fork server has died, or the pool was shut down
            raise self._lost(WorkerLost("no worker process could be started")) from error
        why = WorkerLost("the worker process died (killed, or out of memory)")
        try:
            while True:
                try:
                    result, self.loaded = future.result(timeout=LOOK_EVERY)
                    return result
                except TimeoutError:
                    if future.done():  # the work itself raised TimeoutError
                        raise
                    if watch is not None and (hung := watch.look()):
                        why, watch = hung, None  # killed; now wait until the pool notices
                        self._kill()
        except (BrokenProcessPool, CancelledError) as error:  # cancelled: the slot was closed before a worker started
            raise self._lost(why) from error

    def _lost(self, why: WorkerLost) -> Stopped | WorkerLost:
        """Replace the worker process, unless this slot was closed; return the error to raise."""
        if self.closed:
            return Stopped()
        self.pool.shutdown(wait=False)
        self._start()
        return why

    def _kill(self) -> None:
        for process in list((self.pool._processes or {}).values()):
            process.kill()

    def close(self) -> None:
        self.closed = True
        self._kill()
        self.pool.shutdown(wait=True, cancel_futures=True)


def _become_worker(environment: dict[str, str]) -> None:
    """Pin this process to its device; let it ignore Ctrl-C and end with its parent."""
    worker_processes.set_process_name("ablate-worker")
    environment |= {"TOKENIZERS_PARALLELISM": "false", "TRANSFORMERS_VERBOSITY": "error"}
    environment.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    worker_processes.apply_worker_environment(environment)


def _with_imports(work: Callable[..., Any], *arguments: Any) -> tuple[Any, frozenset[str]]:
    """Return the result of work, and the files of users that this process has imported."""
    result = work(*arguments)
    own = registry.PLUGINS.items()
    return result, frozenset(registry.copy_name(path) for module, path in own if module in sys.modules)


def own_code(work: Any, arguments: tuple[Any, ...]) -> frozenset[str]:
    """Return the files of users that work imports, by its arguments and those of the calls that it wraps."""
    copies = {copy for each in arguments for copy in copies_in(each)}
    inner = own_code(work.func, work.args) if isinstance(work, partial) else ()
    return frozenset(copies | {*inner})


def copies_in(argument: Any) -> tuple[str, ...]:
    if isinstance(argument, TrainRequest):
        return argument.cell.plugins
    return argument.plugins if isinstance(argument, Cell | Evaluation) else ()


class Inline(Slot):
    """The slot of the `inline` engine: this process."""

    def _start(self) -> None:
        pass

    def run(self, work: Callable[..., Any], *arguments: Any, watch: Watch | None = None) -> Any:
        if own_code(work, arguments):
            raise UserError("`plugins` need a process for themselves, so not --engine inline")
        os.environ.update(self.environment)
        return work(*arguments)

    def close(self) -> None:
        for name in self.environment:
            os.environ.pop(name, None)


class FreeSlots:
    """Free slots, given out in order of request, so that a request for several slots is not starved."""

    def __init__(self, slots: list[Slot]):
        self.slots = list(slots)
        self.count = len(apart(self.slots))
        self.turn, self.changed = threading.Lock(), threading.Condition()

    @contextmanager
    def take(self, number: int) -> Iterator[list[Slot]]:
        assert number <= self.count, "`check_capacity` runs before a grid begins"
        with self.turn, self.changed:
            self.changed.wait_for(lambda: len(apart(self.slots)) >= number)
            taken = apart(self.slots)[:number]
            self.slots = [slot for slot in self.slots if slot not in taken]
        try:
            yield taken
        finally:
            with self.changed:
                self.slots += taken
                self.changed.notify_all()


def apart(slots: list[Slot]) -> list[Slot]:
    """Return one slot per device, which processes of a cell cannot share; without devices, every slot."""
    return list({slot.environment.get("CUDA_VISIBLE_DEVICES") or id(slot): slot for slot in slots}.values())


class Local(Engine):
    """Training takes a slot with a device, evaluation a slot on the cores; without a GPU both use the same slots."""

    def __init__(self, permit: Path, train: list[Slot], evaluate: list[Slot], share: float = 0):
        super().__init__(permit, share)
        self.slots = {id(slot): slot for slot in (*train, *evaluate)}
        self.train = FreeSlots(train)
        self.evaluate = self.train if evaluate is train else FreeSlots(evaluate)

    def run(
        self,
        stage: str,
        work: Callable[..., Any],
        *arguments: Any,
        processes: int = 1,
        assist: Callable[..., Any] | None = None,
        watch: Watch | None = None,
    ) -> Any:
        """Run in the process of the first of `processes` slots, with the devices of all of them."""
        free = self.train if stage == "train" else self.evaluate
        with free.take(processes) as taken:
            self.check()
            if processes > 1:
                devices = [slot.environment.get("CUDA_VISIBLE_DEVICES", "") for slot in taken]
                work = partial(work, devices=",".join(filter(None, devices)))
            return taken[0].run(work, *arguments, watch=watch)

    def check_capacity(self, processes: int) -> None:
        super().check_capacity(processes)
        if processes > 1 and any(isinstance(slot, Inline) for slot in self.train.slots):
            raise UserError(f"a cell of {processes} processes cannot run inline; use --engine local")
        if processes > self.train.count:
            raise UserError(
                f"a cell of {processes} processes needs {processes} devices (without a GPU: resources.slots), but "
                f"there are {self.train.count}; lower training.processes, or use a machine with more devices"
            )

    def max_in_flight(self) -> int:
        return 2 * len(self.slots)

    def stop(self) -> None:
        self.finish()
        for slot in self.slots.values():
            slot.close()


def inline(permit: Path) -> Local:
    here: list[Slot] = [Inline({stopping.VARIABLE: str(permit)})]
    return Local(permit, here, here)


def local(permit: Path, resources: Resources, threads: int) -> Local:
    """Make the local engine: a slot per device or part of one (gpus_per_cell), or per share of the cores."""
    common, here = {stopping.VARIABLE: str(permit)}, devices_and_cores(resources, threads)
    cells, cores = len(here.train), count_cores()
    if cells * threads > cores:  # no error: a recipe must be repeatable here, if slowly
        logger.warning(
            "%d cells at a time with %d threads each will be several times slower on %d cores; lower resources.slots "
            "to %d (no effect on results), or training.threads (changes the last bits of results)",
            *(cells, threads, cores, max(1, cores // threads)),
        )
    train = [Slot(common | environment) for environment in here.train]
    evaluate = [Slot(common | environment) for environment in here.evaluate] if here.on_gpu else train
    return Local(permit, train, evaluate, resources.gpus_per_cell if here.on_gpu else 0)


class SlotEnvironments(NamedTuple):
    """Environment variables of each slot; without a GPU training and evaluation share the slots."""

    train: list[dict[str, str]]
    evaluate: list[dict[str, str]]
    on_gpu: bool


def devices_and_cores(resources: Resources, threads: int) -> SlotEnvironments:
    devices, cores = gpus(), count_cores()
    share, on_cores = resources.gpus_per_cell, {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": str(threads)}
    if not devices or share == 0:
        shared = [on_cores] * (resources.slots or max(1, cores // threads))
        return SlotEnvironments(shared, shared, False)
    count = resources.slots or len(devices) * int(1 / share)
    pinned = [on_cores | {"CUDA_VISIBLE_DEVICES": devices[i % len(devices)]} for i in range(count)]
    beside = max(1, min(cores // 4, cores - count * threads))  # evaluations, on the cores that training leaves free
    return SlotEnvironments(pinned, [on_cores | {"OMP_NUM_THREADS": "1"}] * beside, True)


def count_cores(limit_file: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Return the number of cores that this process may use; a container may be limited to fewer than it sees."""
    seen = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):  # not Linux, or `max`: no limit
        quota, period = map(int, limit_file.read_text(encoding="ascii").split())
        return max(1, min(seen, quota // period))
    return seen


def gpus() -> list[str]:
    """Return the GPUs that this process may use, as in CUDA_VISIBLE_DEVICES; imports no torch."""
    if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [device for device in visible.split(",") if device and device != "-1"]
    try:
        done = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):  # no driver, or it hangs
        return []
    return [str(i) for i, line in enumerate(done.stdout.splitlines()) if line.startswith("GPU ")]
