"""Engines run the work of cells; the choice of engine never changes a result.

`local`: the devices of this machine. `ray`: an existing Ray cluster. `slurm`: jobs of a Slurm cluster. `inline`: one
cell after another in this process, for debugging.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Literal

from contrastive.config.experiment import Resources
from contrastive.errors import UserError
from contrastive.runs import stopping, store
from contrastive.runs.stopping import Stopped
from tasks.engines import local
from tasks.engines.on_slurm import Batch, OnSlurm
from tasks.engines.types import Engine, Watch, WorkerLost

__all__ = ["Engine", "EngineName", "Stopped", "Watch", "WorkerLost", "start"]

EngineName = Literal["local", "ray", "slurm", "inline"]


@contextmanager
def start(name: EngineName, resources: Resources, threads: int, batch: Batch | None = None) -> Iterator[Engine]:
    """Start an engine; stop it and all its processes at the end. `batch`: the jobs of `slurm`."""
    with stopping.work_permit(store.home()) as permit:
        engine: Engine
        if name == "slurm":
            if batch is None:
                raise UserError("only `ablate run` submits to Slurm: take another engine")
            engine = OnSlurm(permit, batch)
        elif name == "ray":
            try:
                from tasks.engines.on_ray import connect
            except ImportError as error:
                raise UserError(
                    "the engine ray is not installed: `pip install '.[ray]' -c constraints.txt` in the checkout"
                ) from error
            engine = connect(permit, resources, threads)
        else:
            engine = local.inline(permit) if name == "inline" else local.local(permit, resources, threads)
        try:
            with _ctrl_c(engine):
                yield engine
        finally:
            engine.stop()


@contextmanager
def _ctrl_c(engine: Engine) -> Iterator[None]:
    """Stop the engine at Ctrl-C, even if a library catches the KeyboardInterrupt of the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def handle(number: int, frame: FrameType | None) -> None:
        engine.finish()
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
