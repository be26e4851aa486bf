"""Measure the processor time of the training of a cell, over its processes and attempts."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

from contrastive.runs import store


@contextmanager
def training_time(resume: Path, rank: int) -> Iterator[None]:
    """Add the block's CPU-seconds, and the seconds for which it holds a GPU, to those beside the checkpoint.

    The file says null within the block: after a kill, the time of the cell stays unknown.
    """
    path = resume / f"time.{rank}.json"
    earlier = store.read_json(path) if path.exists() else {"cpu": 0.0, "gpu": 0.0}
    store.write_json(path, None)
    began, cpu = time.perf_counter(), time.process_time()
    try:
        yield
    finally:
        cpu = time.process_time() - cpu
        gpu = time.perf_counter() - began if torch.cuda.is_available() else 0.0
        if earlier:
            with suppress(OSError):  # the disk is full, which was reported already
                store.write_json(path, {"cpu": earlier["cpu"] + cpu, "gpu": earlier["gpu"] + gpu})


def read_training_time(resume: Path, processes: int) -> dict[str, float | None]:
    """Return the sums of `training_time` over the processes of a cell; None unless all are known."""
    times = [known for path in resume.glob("time.*.json") if (known := store.read_json(path))]
    kinds = ("cpu", "gpu") if len(times) == processes else ()
    sums = {kind: round(sum(each[kind] for each in times), 3) for kind in kinds}
    return {f"training_{kind}_seconds": sums.get(kind) for kind in ("cpu", "gpu")}
