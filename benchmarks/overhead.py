"""What a cell costs beside its own computation: the grid's flow and other systems, in one run.

    python -m benchmarks.overhead [CELLS] [TURNS]

The cells compute nothing (`nothing.py`). Everything around them is real: Prefect's flow and tasks with a server,
warm workers, claims, run folders with their digests, MLflow in SQLite, the report. Ray Tune runs as many trials of a
function that reports one number, in actors that are used again, alone and with its own callback for MLflow in SQLite;
the loop asks as often for the result of a task. Needs `pip install 'ray[tune]'`.

exca keeps the result of each cell in its cache (`by_exca.py`), experimaestro a folder of each cell
(`by_experimaestro.py`). Where these start a process for each cell, all at once, there are at most 40 cells.
experimaestro 2.7 wants attrs older than 24, so it has an environment of its own, and is left out unless EXPERIMAESTRO
names its Python: `python -m venv E && E/bin/pip install experimaestro==2.7.0`, then EXPERIMAESTRO=E/bin/python.
"""

import json
import os
import resource
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks import nothing
from benchmarks.turns import Run, start, take_turns

PROCESSES = 40  # cells of a system that starts a process for each of them
EXPERIMAESTRO = os.environ.get("EXPERIMAESTRO")
VARIANTS = (
    *("flow", "Ray Tune", "ray.get", "flow with MLflow", "Ray Tune with MLflow", "flow, all finished"),
    *("exca", "exca, all finished", "map of exca", "map of exca, all finished", "exca, a process a cell"),
    *(("experimaestro, a process a cell", "experimaestro, all finished") if EXPERIMAESTRO else ()),
)


def number(variant: str, cells: int) -> int:
    return min(cells, PROCESSES) if "a process a cell" in variant or "experimaestro" in variant else cells


def measure(variant: str, cells: int) -> Run:
    cells = number(variant, cells)
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(ABLATE_HOME=folder, PREFECT_HOME=f"{folder}/prefect", PREFECT_LOGGING_LEVEL="CRITICAL")
        if "experimaestro" in variant:
            return experimaestro(cells, folder, variant)
        others = {"Ray Tune": ray_tune, "Ray Tune with MLflow": ray_tune, "ray.get": ray_get}
        seconds = others.get(variant, exca if "exca" in variant else flow)(cells, Path(folder), variant)
    return {"seconds": seconds, "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def flow(cells: int, folder: Path, variant: str) -> float:
    from flows import ablation_grid
    from flows.serve import temporary_server
    from tasks import cell, worker_calls
    from tasks.report import BuiltReport

    worker_calls.train, worker_calls.evaluate = nothing.train, nothing.evaluate
    file = nothing.experiment(folder, cells)
    if variant == "flow":  # without MLflow, and so without a report
        cell.record = ablation_grid.sync = lambda *_: None
        ablation_grid.report_task = lambda _: BuiltReport(file, "nothing")
    seconds = []
    with temporary_server.server():
        for _ in range(2 if variant == "flow, all finished" else 1):
            began = time.perf_counter()
            ablation_grid.ablation_grid(str(file))
            assert temporary_server.send_last_events()  # what Prefect's server has still to note is part of the price
            seconds.append(time.perf_counter() - began)
    return seconds[-1]


def ray_tune(cells: int, folder: Path, variant: str) -> float:
    import ray
    from ray import tune
    from ray.air.integrations.mlflow import MLflowLoggerCallback

    ray.init(address="local", include_dashboard=False, logging_level="ERROR")
    callbacks = [MLflowLoggerCallback(f"sqlite:///{folder}/mlflow.db", experiment_name="nothing")]
    began = time.perf_counter()
    tune.Tuner(
        lambda config: {"score": 1.0},
        param_space={"seed": tune.grid_search(list(range(cells)))},
        tune_config=tune.TuneConfig(reuse_actors=True),
        run_config=tune.RunConfig(
            storage_path=str(folder), verbose=0, callbacks=callbacks if "MLflow" in variant else None
        ),
    ).fit()
    return time.perf_counter() - began


def ray_get(cells: int, folder: Path, variant: str) -> float:
    import ray

    ray.init(address="local", include_dashboard=False, logging_level="ERROR")
    task = ray.remote(lambda seed: {"score": 1.0})
    began = time.perf_counter()
    assert len(ray.get([task.remote(seed) for seed in range(cells)])) == cells
    return time.perf_counter() - began


def exca(cells: int, folder: Path, variant: str) -> float:
    from benchmarks import by_exca

    return by_exca.run(cells, folder, variant)


def experimaestro(cells: int, folder: str, variant: str) -> Run:
    """A process for each run: within one, what it remembers would answer, and not what it finds on the disk."""
    command = [str(EXPERIMAESTRO), str(Path(__file__).with_name("by_experimaestro.py")), str(cells), folder]
    for _ in range(2 if "all finished" in variant else 1):
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=os.environ | {"HOME": folder})
    return json.loads(done.stdout.splitlines()[-1])


def main(cells: int = 1000, turns: int = 3) -> None:
    print(f"{cells} cells that compute nothing, {turns} turns, {len(os.sched_getaffinity(0))} cores")
    print("| | ms a cell (each turn) | median | MiB of the driver |\n|---|---|---|---|")
    for variant, runs in take_turns("benchmarks.overhead", VARIANTS, [cells], turns).items():
        count = number(variant, cells)
        each = [1000 * run["seconds"] / count for run in runs]
        listed = ", ".join(f"{value:.1f}" for value in each)
        name = variant if count == cells else f"{variant} ({count} cells)"
        print(f"| {name} | {listed} | {statistics.median(each):.1f} | {max(run['mib'] for run in runs):.0f} |")


if __name__ == "__main__":
    start(main, measure)
