"""How far one driver reaches: a grid of very many cells that compute nothing, on very many devices that do not exist.

    python -m benchmarks.scale plan [CELLS]             the file to cells, ids and states
    python -m benchmarks.scale flow [CELLS] [DEVICES]   Prefect's flow and tasks over simulated devices, without MLflow

`flow` gives the cells a second that one driver can hand out: with cells of s seconds it feeds s times as many devices.
"""

import os
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import nothing
from contrastive.grid import load
from contrastive.grid import plan as plans
from contrastive.runs import stopping
from tasks.engines import Engine


class Simulated(Engine):
    """Devices that do every work at once; no more of it at a time than there are devices."""

    def __init__(self, leave: Path, devices: int):
        super().__init__(leave)
        self.devices, self.free = devices, threading.Semaphore(devices)

    def run(self, stage: str, work: Callable[..., Any], *arguments: Any, **others: Any) -> None:
        with self.free:
            self.check()

    def check_capacity(self, processes: int) -> None:
        pass

    def max_in_flight(self) -> int:
        return 2 * self.devices

    def stop(self) -> None:
        self.finish()


def timed(what: str, cells: int, began: float) -> None:
    seconds, peak = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{what}: {cells} cells in {seconds:.1f} s, {1000 * seconds / cells:.2f} ms a cell, peak {peak:.0f} MiB")


def plan(folder: Path, cells: int = 50_000) -> None:
    file, began = nothing.experiment(folder, cells), time.perf_counter()
    made = plans.make_plan(load.load_experiment(file))
    assert len(made.to_do) == cells
    timed("plan", cells, began)


def flow(folder: Path, cells: int = 50_000, devices: int = 512) -> None:
    from prefect import flow as prefect_flow

    from flows import ablation_grid
    from flows.serve import temporary_server
    from tasks import cell

    made = plans.make_plan(load.load_experiment(nothing.experiment(folder, cells)))
    cell.record = lambda *_: None  # MLflow has a price of its own: `benchmarks.overhead`

    @prefect_flow(name="scale", task_runner=ablation_grid.supervisors)
    def scale() -> None:
        with stopping.work_permit(folder) as leave:
            began = time.perf_counter()
            assert len(ablation_grid.run_cells(made, Simulated(leave, devices))) == cells
            assert temporary_server.send_last_events()
            timed(f"flow, {devices} devices", cells, began)

    with temporary_server.server():
        scale()


def main(what: str, *numbers: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(ABLATE_HOME=folder, PREFECT_HOME=f"{folder}/prefect", PREFECT_LOGGING_LEVEL="CRITICAL")
        {"plan": plan, "flow": flow}[what](Path(folder), *map(int, numbers))


if __name__ == "__main__":
    main(*sys.argv[1:])
