"""The devices of this machine: `local`, a warm worker process a slot, and `inline`, this very process, to debug."""

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from contrastive import permit
from contrastive.config import Resources
from contrastive.errors import UserError
from tasks.engines.slot import Slot
from tasks.engines.types import Engine, Watch, whole_devices


class Inline:
    """The slot of the `inline` engine."""

    def __init__(self, environment: dict[str, str]):
        self.environment = environment

    def run(self, work: Callable[..., Any], *arguments: Any, watch: Watch | None = None) -> Any:
        os.environ.update(self.environment)
        return work(*arguments)

    def close(self) -> None:
        for name in self.environment:
            os.environ.pop(name, None)


class Free:
    """Slots that are free. Who asks first is served first, so that one who needs several is not starved."""

    def __init__(self, slots: list[Slot] | list[Inline]):
        self.slots: list[Slot | Inline] = list(slots)
        self.count = len(apart(self.slots))
        self.turn, self.changed = threading.Lock(), threading.Condition()

    @contextmanager
    def take(self, number: int) -> Iterator[list[Slot | Inline]]:
        assert number <= self.count, "`room_for` is asked before a grid begins"
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


def apart(slots: list[Slot | Inline]) -> list[Slot | Inline]:
    """One slot a device, since processes of one cell cannot share one; shares of the cores are apart anyway."""
    return list({slot.environment.get("CUDA_VISIBLE_DEVICES") or id(slot): slot for slot in slots}.values())


class Local(Engine):
    """Training waits for a device, evaluation for a share of the cores; without a GPU the two are the same slots."""

    def __init__(
        self, leave: Path, train: list[Slot] | list[Inline], evaluate: list[Slot] | list[Inline], share: float = 0
    ):
        super().__init__(leave)
        self.share = share
        self.slots = {id(slot): slot for slot in (*train, *evaluate)}
        self.train = Free(train)
        self.evaluate = self.train if evaluate is train else Free(evaluate)

    def run(
        self,
        stage: str,
        work: Callable[..., Any],
        *arguments: Any,
        processes: int = 1,
        assist: Callable[..., Any] | None = None,
        watch: Watch | None = None,
    ) -> Any:
        """In a process of the first of so many slots, told the devices of all where there are several."""
        free = self.train if stage == "train" else self.evaluate
        with free.take(processes) as taken:
            self.check()
            if processes > 1:
                devices = [slot.environment.get("CUDA_VISIBLE_DEVICES", "") for slot in taken]
                work = partial(work, devices=",".join(filter(None, devices)))
            return taken[0].run(work, *arguments, watch=watch)

    def room_for(self, processes: int) -> None:
        whole_devices(self.share, processes)
        if processes > 1 and not all(isinstance(slot, Slot) for slot in self.train.slots):
            raise UserError(f"a cell of {processes} processes cannot run inline: take --engine local")
        if processes > self.train.count:
            raise UserError(
                f"a cell of {processes} processes needs as many devices (without a GPU: resources.slots), and there "
                f"are {self.train.count}: lower training.processes, or take a machine with more"
            )

    def width(self) -> int:
        return 2 * len(self.slots)

    def stop(self) -> None:
        self.finish()
        for slot in self.slots.values():
            slot.close()


def inline(leave: Path) -> Local:
    here = [Inline({permit.VARIABLE: str(leave)})]
    return Local(leave, here, here)


def local(leave: Path, resources: Resources, threads: int) -> Local:
    """A slot a device, or several where a cell needs only a part of one, or a share of the cores without devices."""
    devices, cores = gpus(), len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    share, common = resources.gpus_per_cell, {permit.VARIABLE: str(leave)}
    if not devices or share == 0:
        on_cores = common | {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": str(threads)}
        shared = [Slot(on_cores) for _ in range(resources.slots or max(1, cores // threads))]
        return Local(leave, shared, shared)
    count = resources.slots or len(devices) * int(1 / share)
    pinned = [common | {"CUDA_VISIBLE_DEVICES": devices[i % len(devices)]} for i in range(count)]
    train = [Slot(place | {"OMP_NUM_THREADS": str(threads)}) for place in pinned]
    on_core = common | {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    return Local(leave, train, [Slot(on_core) for _ in range(max(1, cores // 4))], share)


def gpus() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them, without importing torch."""
    if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [device for device in visible.split(",") if device and device != "-1"]
    try:
        listed = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [str(i) for i, line in enumerate(listed.stdout.splitlines()) if line.startswith("GPU ")]
