"""What a cell costs beside its own computation: the grid's flow and other systems, in one run.

    python -m benchmarks.overhead [CELLS] [TURNS]

The cells compute nothing (`nothing.py`). Everything around them is real: Prefect's flow and tasks with a server,
warm workers, claims, run folders with their digests, MLflow in SQLite, the report. Ray Tune runs as many trials of a
function that reports one number, in actors that are used again, alone and with its own callback for MLflow in SQLite;
the loop asks as often for the result of a task. Needs `pip install 'ray[tune]'`.
"""

import os
import resource
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks import nothing
from benchmarks.turns import Run, start, take_turns

VARIANTS = ("worker", "flow", "Ray Tune", "ray.get", "flow with MLflow", "Ray Tune with MLflow", "flow, all finished")


def measure(variant: str, cells: int) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(ABLATE_HOME=folder, PREFECT_HOME=f"{folder}/prefect", PREFECT_LOGGING_LEVEL="CRITICAL")
        others = {"worker": worker, "Ray Tune": ray_tune, "Ray Tune with MLflow": ray_tune, "ray.get": ray_get}
        seconds = others.get(variant, flow)(cells, Path(folder), variant)
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


def worker(cells: int, folder: Path, variant: str) -> float:
    """Eight processes of `ablate worker`, without Prefect and MLflow."""
    from flows.worker import run_worker
    from tasks import worker_calls

    worker_calls.train, worker_calls.evaluate = nothing.train, nothing.evaluate
    file = nothing.experiment(folder, cells)
    file.write_text(file.read_text() + "resources: {slots: 8}\n")
    began = time.perf_counter()
    run_worker(file, until="")
    return time.perf_counter() - began


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


def main(cells: int = 1000, turns: int = 3) -> None:
    print(f"{cells} cells that compute nothing, {turns} turns, {len(os.sched_getaffinity(0))} cores")
    print("| | ms a cell (each turn) | median | MiB of the driver |\n|---|---|---|---|")
    for variant, runs in take_turns("benchmarks.overhead", VARIANTS, [cells], turns).items():
        each = [1000 * run["seconds"] / cells for run in runs]
        listed = ", ".join(f"{value:.1f}" for value in each)
        print(f"| {variant} | {listed} | {statistics.median(each):.1f} | {max(run['mib'] for run in runs):.0f} |")


if __name__ == "__main__":
    start(main, measure)
