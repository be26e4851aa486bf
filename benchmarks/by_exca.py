"""Cells of nothing by exca: a task a cell (`TaskInfra`), or the items of one map (`MapInfra`), cached on the disk."""

import logging
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

os.environ["TQDM_DISABLE"] = "1"  # read when tqdm is imported

import exca
from pydantic import BaseModel


class Cell(BaseModel):
    seed: int = -1
    infra: exca.TaskInfra = exca.TaskInfra()

    @infra.apply
    def scores(self) -> dict[str, float]:
        return {"score": 1.0}


class Cells(BaseModel):
    infra: exca.MapInfra = exca.MapInfra()

    @infra.apply(item_uid=str)
    def scores(self, seeds: Sequence[int]) -> Iterator[dict[str, float]]:
        for _ in seeds:
            yield {"score": 1.0}


def run(cells: int, folder: Path, variant: str) -> float:
    """Tasks in this process, tasks in a process each (submitit), or a map over a pool of processes."""
    logging.getLogger("exca").setLevel("WARNING")
    for _ in range(2 if "all finished" in variant else 1):
        began = time.perf_counter()
        if "map" in variant:
            mapped = Cells(infra=exca.MapInfra(folder=folder, cluster="processpool"))
            found = list(mapped.scores(range(cells)))
        else:
            cluster = "local" if "a process a cell" in variant else None
            first = Cell(infra=exca.TaskInfra(folder=folder, cluster=cluster))
            with first.infra.job_array() as tasks:
                tasks.extend(first.infra.clone_obj(seed=seed) for seed in range(cells))
            found = [task.scores() for task in tasks]
        assert found == [{"score": 1.0}] * cells
    return time.perf_counter() - began
