"""The parts of `python -m benchmarks.gpu`: each yields rows, and prints them as lines of JSON when it is a process."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.gpu_speed import speed
from flows import gpu_check
from flows.gpu_check import Row, Sizes, cell, described, home, texts, trained, tried, weights

QUICKSTART = Path("configs/quickstart.yaml")


class Part(NamedTuple):
    title: str
    rows: Callable[[Sizes], Iterator[Row]]
    share: int  # of the seconds


def verdicts(sizes: Sizes) -> Iterator[Row]:
    """Train the quickstart on the GPU, again, and on the CPU: same bits again, same verdicts on both."""
    import torch

    from benchmarks import one_cell

    with tempfile.TemporaryDirectory() as place:
        file = experiment_file(sizes, Path(place))
        ways = {"cpu": "", "gpu": None, "gpu again": None} if torch.cuda.is_available() else {"cpu": "", "again": ""}
        os.environ["ABLATE_HOME"] = str(Path(place) / "cpu")
        one_cell.prepare(str(file))  # tokens, which do not depend on the device
        for way in list(ways)[1:]:
            shutil.copytree(Path(place) / "cpu", Path(place) / way)
        running = {way: processes(file, Path(place) / way, devices) for way, devices in ways.items()}
        *_, first, again = (finished(file, Path(place) / way, running[way]) for way in list(ways)[-2:])
        equal = sum(one == other for one, other in zip(again["weights"], first["weights"], strict=True))
        yield {"name": f"trained twice: {equal} of {len(first['weights'])} cells have equal bits"}
        yield from side_by_side(finished(file, Path(place) / "cpu", running["cpu"]), first)


def finished(file: Path, folder: Path, running: list["subprocess.Popen[bytes]"]) -> Row:
    codes = [process.wait() for process in running]
    assert not any(codes), f"a cell failed ({folder.name})"
    return scores_of(file, folder)


def experiment_file(sizes: Sizes, place: Path) -> Path:
    """Return the quickstart with two seeds, since more of it take a CPU too long; or a small experiment."""
    if not sizes.quick:
        file = place / QUICKSTART.name
        file.write_text(QUICKSTART.read_text(encoding="utf-8").replace("seeds: [0, 1, 2, 3]", "seeds: [0, 1]"))
        return file
    source, encoder = texts(place / "texts.csv", 96, 8), json.dumps(sizes.encoder(tune={"last_blocks": 1}))
    (place / "small.yaml").write_text(
        f"name: small\ndata: {{source: 'file:{source}', train: 32, test: 32, max_length: 16}}\nencoder: {encoder}\n"
        "training: {epochs: 1, batch_size: 8, head_lr: 1e-2, encoder_lr: 1e-3}\nevaluation: {metrics: [accuracy]}\n"
        "seeds: [0, 1]\nsections:\n  - title: R-Drop\n    rows: {cross-entropy: {}, R-Drop: {loss: rdrop}}\n",
        encoding="utf-8",
    )
    return place / "small.yaml"


def environment_of(folder: Path, devices: str | None) -> dict[str, str]:
    return os.environ | {"ABLATE_HOME": str(folder)} | ({} if devices is None else {"CUDA_VISIBLE_DEVICES": devices})


def processes(file: Path, folder: Path, devices: str | None) -> list["subprocess.Popen[bytes]"]:
    """Start processes that train and evaluate all cells of an experiment: four at once on a GPU, twelve on CPUs."""
    from benchmarks import one_cell

    at_once = min(4 if devices is None else 12, max(1, 3 * len(os.sched_getaffinity(0)) // 4))
    code = "import sys; from benchmarks.one_cell import run; [run(sys.argv[1], int(n)) for n in sys.argv[2:]]"
    shares = [map(str, range(len(one_cell.read(str(file))[1]))[first::at_once]) for first in range(at_once)]
    environment = environment_of(folder, devices)
    return [subprocess.Popen([sys.executable, "-c", code, str(file), *share], env=environment) for share in shares]


def scores_of(file: Path, folder: Path) -> Row:
    """Return a digest of each cell's weights, its scores, and which cells each row of each section has."""
    from benchmarks import one_cell
    from contrastive.grid.load import load_experiment
    from contrastive.runs import store

    os.environ["ABLATE_HOME"] = str(folder)
    folders, loaded = one_cell.folders(str(file)), load_experiment(file)
    scores = [store.read_json(run / "scores.json")["scores"] for run in folders]
    return {
        "weights": [weights(run) for run in folders],
        "scores": [{score["name"]: score["value"] for score in of_cell} for of_cell in scores],
        "rows": [
            (section.title, row.label, row.against, [loaded.cells.index(cell) for cell in row.cells])
            for section in loaded.sections
            for row in section.rows
        ],
    }


def side_by_side(cpu: Row, gpu: Row) -> Iterator[Row]:
    """Yield for each row of each section its mean accuracy and its difference's interval, on CPU and GPU."""
    score = next(name for name in cpu["scores"][0] if name.endswith("accuracy"))
    bases: dict[str, list[int]] = {}
    for title, label, against, cells in cpu["rows"]:
        bases.setdefault(title, cells)
        row: Row = {"name": f"{title} {label}"}
        for name, run in (("CPU", cpu), ("GPU", gpu)):
            values = np.array([run["scores"][number][score] for number in cells])
            base = np.array([run["scores"][number][score] for number in bases[title]])
            row[f"{score}, {name}"] = float(values.mean())
            row[f"difference, {name}"] = "" if against is None else interval(values - base)
        apart = [abs(cpu["scores"][n][score] - gpu["scores"][n][score]) for n in cells]
        yield row | {"largest difference of a cell": max(apart)}


def interval(differences: np.ndarray) -> str:
    """Return the mean difference of pairs, and half of its 95 % interval."""
    from scipy import stats

    half = stats.t.ppf(0.975, len(differences) - 1) * stats.sem(differences)
    word = "better" if differences.mean() > half else "worse" if differences.mean() < -half else "undecided"
    return f"{differences.mean():+.4f} ± {half:.4f} {word}"


OBJECTIVES: dict[str, Row] = {
    "GradCache": {"loss": "simcse", "training": {"micro_batch": 4}},
    "GradCache, whole batch": {"loss": "simcse"},
    "MoCo": {"loss": "moco", "view": "momentum", "queue": 64},
    "R-Drop": {"loss": "rdrop", "view": "one_stage"},
    "token views": {"loss": "ce+supcon", "view": "topk_tokens", "k": 4},
}


def modes(sizes: Sizes) -> Iterator[Row]:
    """Train what `ablate doctor --gpu` trains, and further objectives."""
    with home() as folder:
        yield from gpu_check.modes(sizes, gpu_check.MODES | OBJECTIVES, folder)


def sharding(sizes: Sizes) -> Iterator[Row]:
    """Train a cell plainly, in two processes, and by ZeRO and FSDP in one process."""
    zero = "deepspeed:configs/deepspeed/zero{}.json"
    ways: dict[str, Row] = {
        "plain": {}, "two processes": {"processes": 2}, "ZeRO 2": {"sharding": zero.format(2)},
        "ZeRO 3": {"sharding": zero.format(3)}, "FSDP": {"sharding": "fsdp"},
        "ZeRO 3, bf16": {"sharding": zero.format(3), "precision": "bf16"},
        "FSDP, bf16": {"sharding": "fsdp", "precision": "bf16"},
    }  # fmt: skip
    if sizes.quick:
        ways = {name: ways[name] for name in ("plain", "two processes", "FSDP")}
    with home() as folder:
        source = texts(folder / "texts.csv", sizes.of(400, 80), sizes.of(120, 16))
        plain: float | None = None
        for name, training in ways.items():
            sharded = cell(source, sizes.encoder(), sizes.of(128, 16), sizes.of(320, 32), training)
            row = tried(name, lambda sharded=sharded: described(trained(sharded)))
            if name == "plain":
                plain = row.get("last loss")
            elif plain is not None and "last loss" in row:
                row["relative difference of the last loss"] = abs(row["last loss"] - plain) / plain
            yield row


TUNED: dict[str, Row] = {"all blocks": {}, "LoRA": {"lora": {"r": 8}}}
PACKINGS = (
    ("all blocks", 1), ("all blocks", 8), ("LoRA", 1), ("LoRA", 8), ("all blocks", 4), ("LoRA", 4), ("all blocks", 2),
    ("LoRA", 2),
)  # fmt: skip


def packing(sizes: Sizes) -> Iterator[Row]:
    """Train small cells on one GPU: one after another, and in several processes at once."""
    with home() as folder:
        source = texts(folder / "texts.csv", sizes.of(600, 80), sizes.of(40, 16))
        workers = [started_worker(folder / str(number), source, sizes) for number in range(sizes.of(8, 2))]
        try:
            for process in workers:
                answered(process, 0)
            alone = dict[str, float]()
            for number, (tuned, count) in enumerate(PACKINGS, 1):
                if count > len(workers):
                    continue
                row = tried(f"{tuned}: {count} at once", partial(packed, workers[:count], tuned, number))
                if rate := row.get("cells an hour"):
                    row["times as many as one at a time"] = rate / alone.setdefault(tuned, rate)
                yield row
        finally:
            for process in workers:
                process.kill()
                process.wait()


def started_worker(place: Path, source: Path, sizes: Sizes) -> "subprocess.Popen[str]":
    program = [sys.executable, "-m", "benchmarks.gpu_parts", "worker", str(source)]
    program += ["--quick"] if sizes.quick else []
    environment = os.environ | {"ABLATE_HOME": str(place)}
    return subprocess.Popen(program, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def packed(workers: list["subprocess.Popen[str]"], tuned: str, task: int) -> Row:
    """Let each worker train cells, at the same time; return the rate. `task` is a number of its own."""
    each = 2 if len(workers) < 8 else 1
    begin = time.monotonic()
    for number, process in enumerate(workers):
        assert process.stdin is not None
        process.stdin.write(json.dumps([task, tuned, [100 * task + 10 * number + cell for cell in range(each)]]) + "\n")
        process.stdin.flush()
    for process in workers:
        answered(process, task)
    seconds, cells = time.monotonic() - begin, each * len(workers)
    return {"cells": cells, "seconds": seconds, "cells an hour": 3600 * cells / seconds}


def answered(process: "subprocess.Popen[str]", task: int) -> None:
    """Wait until a worker is done with a task; raise RuntimeError with its mistake."""
    assert process.stdout is not None
    line = next((line for line in process.stdout if line not in {f"done {before}\n" for before in range(task)}), "")
    if line != f"done {task}\n":
        raise RuntimeError(line.strip() or "a worker ended")


def worker(source: str, sizes: Sizes) -> None:
    """Train a cell of each kind to warm up; then train those that standard input names, and say when they are done."""

    def train(tuned: str, seeds: list[int]) -> None:
        training = {"epochs": sizes.of(4, 1), "batch_size": sizes.of(32, 8)}
        encoder = sizes.encoder(tune=TUNED[tuned])
        for seed in seeds:
            trained(cell(Path(source), encoder, sizes.of(40, 16), sizes.of(512, 32), training, seed))

    try:
        for tuned in TUNED:
            train(tuned, [10_000])
        print("done 0", flush=True)
        for line in sys.stdin:
            task, *cells = json.loads(line)
            train(*cells)
            print(f"done {task}", flush=True)
    except Exception as error:
        print(f"{type(error).__name__}: {error}".replace("\n", " "), flush=True)


def adapters(sizes: Sizes) -> Iterator[Row]:
    """Time steps of up to sixteen cells whose LoRA adapters train as one product over one frozen encoder."""
    from benchmarks.gpu_adapters import seconds_a_step

    alone = 0.0
    for cells in (1, 2, 4, 8, 16):
        seconds = seconds_a_step(range(cells), sizes)
        alone = alone or seconds
        yield {"name": f"{cells} at once", "ms a step": 1000 * seconds, "times as many": cells * alone / seconds}


PARTS = {
    "verdicts": Part("the quickstart on CPU and GPU", verdicts, 160),
    "modes": Part("a cell in each mode", modes, 120),
    "speed": Part("steps of base encoders", speed, 150),
    "sharding": Part("ZeRO, FSDP and two processes", sharding, 90),
    "packing": Part("small cells at once", packing, 110),
    "adapters": Part("LoRA adapters of several cells as one product", adapters, 45),
}


def main() -> None:
    name, *options = sys.argv[1:]
    sizes = Sizes("--quick" in options)
    if name == "worker":
        return worker(options[0], sizes)
    for row in PARTS[name].rows(sizes):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
