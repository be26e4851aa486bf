"""The parts of `python -m benchmarks.gpu`: each yields rows, and prints them as lines of JSON when it is a process."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.gpu_speed import BASE, speed
from flows.gpu_check import Row, Sizes, cell, described, everything, home, texts, trained, tried, weights

QUICKSTART = Path("configs/quickstart.yaml")


class Part(NamedTuple):
    title: str
    rows: Callable[[Sizes], Iterator[Row]]
    share: int  # of the seconds


def verdicts(sizes: Sizes) -> Iterator[Row]:
    """Train the quickstart on the GPU, again, and on the CPU: same bits again, same verdicts on both."""
    import torch

    with tempfile.TemporaryDirectory() as place:
        file = experiment_file(sizes, Path(place))
        ways = {"cpu": "", "gpu": None, "gpu again": None} if torch.cuda.is_available() else {"cpu": "", "again": ""}
        prepare(file, Path(place) / "cpu")  # tokens, which do not depend on the device
        for way in list(ways)[1:]:
            shutil.copytree(Path(place) / "cpu", Path(place) / way)
        running = {way: processes(file, Path(place) / way, devices) for way, devices in ways.items()}
        for way, started in running.items():
            codes = [process.wait() for process in started]
            assert not any(codes), f"a cell failed ({way})"
        runs = {way: scores_of(file, Path(place) / way) for way in ways}
        *_, first, again = runs.values()
        equal = sum(one == other for one, other in zip(again["weights"], first["weights"], strict=True))
        yield {"": f"trained twice: {equal} of {len(first['weights'])} cells have equal bits"}
        yield from side_by_side(runs["cpu"], first)


def experiment_file(sizes: Sizes, place: Path) -> Path:
    if not sizes.quick:
        return QUICKSTART.absolute()
    source, encoder = texts(place / "texts.csv", 96, 8), json.dumps(sizes.encoder(tune={"last_blocks": 1}))
    (place / "small.yaml").write_text(
        f"name: small\ndata: {{source: 'file:{source}', train: 32, test: 32, max_length: 16}}\nencoder: {encoder}\n"
        "training: {epochs: 1, batch_size: 8, head_lr: 1e-2, encoder_lr: 1e-3}\nevaluation: {metrics: [accuracy]}\n"
        "seeds: [0, 1]\nsections:\n  - title: R-Drop\n    axes: {loss: [ce, rdrop]}\n",
        encoding="utf-8",
    )
    return place / "small.yaml"


def environment_of(folder: Path, devices: str | None) -> dict[str, str]:
    return os.environ | {"ABLATE_HOME": str(folder)} | ({} if devices is None else {"CUDA_VISIBLE_DEVICES": devices})


def prepare(file: Path, folder: Path) -> None:
    program = [sys.executable, "-m", "benchmarks.one_cell", str(file), "prepare"]
    subprocess.run(program, env=environment_of(folder, ""), check=True)


def processes(file: Path, folder: Path, devices: str | None) -> list["subprocess.Popen[bytes]"]:
    """Start processes that train and evaluate all cells of an experiment: four at once on a GPU, eight on CPUs."""
    from benchmarks import one_cell

    at_once = min(4 if devices is None else 8, len(os.sched_getaffinity(0)))
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
    scores = [store.read_json(each / "scores.json")["scores"] for each in folders]
    return {
        "weights": [weights(each) for each in folders],
        "scores": [{score["name"]: score["value"] for score in own} for own in scores],
        "rows": [
            (section.section.title, row.label, row.against, [loaded.cells.index(cell) for cell in row.cells])
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
        row: Row = {"": f"{title} {label}"}
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
}


def modes(sizes: Sizes) -> Iterator[Row]:
    """Train what `ablate doctor --gpu` trains, and further objectives."""
    yield from everything(sizes, OBJECTIVES)


def sharding(sizes: Sizes) -> Iterator[Row]:
    """Train a cell plainly, by ZeRO 2 and 3 and by FSDP in one process, and in two processes on this machine."""
    zero = "deepspeed:configs/deepspeed/zero{}.json"
    ways: dict[str, Row] = {
        "plain": {}, "two processes": {"processes": 2}, "FSDP": {"sharding": "fsdp"},
        "ZeRO 2": {"sharding": zero.format(2)}, "ZeRO 3": {"sharding": zero.format(3)},
        "FSDP, bf16": {"sharding": "fsdp", "precision": "bf16"},
        "ZeRO 3, bf16": {"sharding": zero.format(3), "precision": "bf16"},
    }  # fmt: skip
    with home() as folder:
        source = texts(folder / "texts.csv", sizes.of(400, 80), sizes.of(120, 16))
        plain: float | None = None
        for name, training in ways.items():
            asked = cell(source, sizes.encoder(), sizes.of(128, 16), sizes.of(320, 32), training)
            row = tried(name, lambda asked=asked: described(trained(asked)))
            if name == "plain":
                plain = row.get("last loss")
            elif plain is not None and "last loss" in row:
                row["relative difference of the last loss"] = abs(row["last loss"] - plain) / plain
            yield row


def packing(sizes: Sizes) -> Iterator[Row]:
    """Train small cells on one GPU: one after another, and several processes at once."""
    with home() as folder:
        source = texts(folder / "texts.csv", sizes.of(600, 80), sizes.of(40, 16))
        alone: dict[str, float] = {}
        for tuned, count in PACKINGS[: sizes.of(len(PACKINGS), 2)]:
            tune = {} if tuned == "all blocks" else {"last_blocks": 2}
            place = folder / f"{count}{len(tune)}"
            row = tried(f"{tuned}: {count} at once", lambda c=count, p=place, t=tune: packed(c, p, source, sizes, t))
            rate = row.get("cells an hour", 0.0)
            yield row | {"times as many as one at a time": rate / alone.setdefault(tuned, rate or 1.0)}


PACKINGS = (
    ("all blocks", 1), ("all blocks", 4), ("last two", 1), ("last two", 4), ("all blocks", 8), ("all blocks", 2),
    ("last two", 8),
)  # fmt: skip
CELLS_EACH = 2  # that a process trains one after another


def packed(workers: int, place: Path, source: Path, sizes: Sizes, tune: Row) -> Row:
    """Train cells at once in workers that have imported everything and trained one cell each; return the rate."""
    place.mkdir()
    asked = json.dumps([CELLS_EACH, str(source), sizes.quick, tune])
    program = [sys.executable, "-m", "benchmarks.gpu_parts", "worker", asked]
    environment = os.environ | {"ABLATE_HOME": str(place)}
    running = [
        subprocess.Popen(
            [*program, str(number)], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for number in range(workers)
    ]
    for process in running:
        line = process.stdout.readline()  # type: ignore[union-attr]
        assert line == "ready\n", f"a worker said {line!r}"
    begin = time.monotonic()
    for process in running:
        process.stdin.close()  # type: ignore[union-attr]
    codes = [process.wait() for process in running]
    assert not any(codes), "a worker failed; see above"
    seconds = time.monotonic() - begin
    return {"cells": workers * CELLS_EACH, "seconds": seconds, "cells an hour": 3600 * workers * CELLS_EACH / seconds}


def worker(asked: str, number: str) -> None:
    """Warm up, wait for the end of standard input, and train cells."""
    count, source, quick, tune = json.loads(asked)
    sizes = Sizes(quick)

    def small(seed: int) -> Any:
        training = {"epochs": sizes.of(4, 1), "batch_size": 32 if not quick else 8}
        return cell(Path(source), sizes.encoder(tune=tune), sizes.of(40, 16), sizes.of(512, 32), training, seed)

    trained(small(10_000 + int(number)))
    print("ready", flush=True)
    sys.stdin.read()
    cells = [small(100 * int(number) + seed) for seed in range(count)]
    for each in cells:
        trained(each)


def energy(sizes: Sizes) -> Iterator[Row]:
    """Compare the energy in a cell's record with the power that is read beside it."""
    import pynvml
    import torch

    if not torch.cuda.is_available():
        yield {"": "no energy", "error": "needs a GPU"}
        return
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    yield {"": "power limit", "watts": pynvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000}
    readings, done = [], threading.Event()

    def read() -> None:
        while not done.wait(0.02):
            readings.append((time.perf_counter(), pynvml.nvmlDeviceGetPowerUsage(handle) / 1000))

    with home() as folder:
        source = texts(folder / "texts.csv", sizes.of(3232, 80), sizes.of(128, 16))
        asked = cell(source, sizes.encoder(shape=BASE), sizes.of(128, 16), sizes.of(3200, 32), {"precision": "bf16"})
        thread = threading.Thread(target=read)
        thread.start()
        row = tried("the cell's record", lambda: described(trained(asked)))
        done.set()
        thread.join()
    times, watts = np.array(readings).T
    joules = float(np.trapezoid(watts, times))
    yield row
    yield {"": "power read every 20 ms", "joules": joules, "seconds": float(times[-1] - times[0]), "watts": watts.max()}


def adapters(sizes: Sizes) -> Iterator[Row]:
    """Time steps of up to sixteen cells whose LoRA adapters train as one product over one frozen encoder."""
    from benchmarks.gpu_adapters import seconds_a_step

    alone = 0.0
    for cells in (1, 2, 4, 8, 16):
        seconds = seconds_a_step(range(cells), sizes)
        alone = alone or seconds
        yield {"": f"{cells} at once", "ms a step": 1000 * seconds, "times as many": cells * alone / seconds}


PARTS = {
    "verdicts": Part("the quickstart on CPU and GPU", verdicts, 200),
    "modes": Part("a cell in each mode", modes, 120),
    "speed": Part("steps of base encoders", speed, 150),
    "sharding": Part("ZeRO, FSDP and two processes", sharding, 90),
    "packing": Part("small cells at once", packing, 90),
    "adapters": Part("LoRA adapters of several cells as one product", adapters, 30),
    "energy": Part("NVML beside the record", energy, 30),
}


def main() -> None:
    name, *options = sys.argv[1:]
    if name == "worker":
        return worker(*options)
    for row in PARTS[name].rows(Sizes("--quick" in options)):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
