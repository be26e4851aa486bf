"""The parts of `python -m benchmarks.gpu`: each yields rows, and prints them as lines of JSON when it is a process."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Row = dict[str, Any]
QUICKSTART = Path("configs/quickstart.yaml")
MINILM = {"layers": 6, "hidden": 384, "heads": 12, "vocabulary": 4000}
BASE = {"layers": 12, "hidden": 768, "heads": 12, "vocabulary": 4000}
TINY = {"layers": 2, "hidden": 32, "heads": 2, "vocabulary": 300}
WARM = 10  # steps before the clock


@dataclass(frozen=True)
class Sizes:
    """How large a part's cells are."""

    quick: bool

    def encoder(self, kind: str = "bert", shape: Row | None = None, **settings: Any) -> Row:
        return {"model": f"scratch:{kind}", "scratch": TINY if self.quick else shape or MINILM} | settings

    def of(self, full: int, quick: int) -> int:
        return quick if self.quick else full


class Part(NamedTuple):
    title: str
    rows: Callable[[Sizes], Iterator[Row]]
    share: int  # of the seconds


def texts(file: Path, count: int, words: int) -> Path:
    """Write made-up texts of two classes, whose words differ in part; most have exactly so many words."""
    generator = np.random.default_rng(0)
    vocabulary = np.array(["".join(generator.choice(list("abcdefghijklmnopqrstuvwxyz"), 5)) for _ in range(2000)])
    lines = ["text,label"]
    for number in range(count):
        own = generator.integers(0, 1000, words) + 500 * (number % 2)
        length = words if number % 4 else max(4, words // 2)
        lines.append(f"{' '.join(vocabulary[own[:length]])},{'ab'[number % 2]}")
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def cell(file: Path, encoder: Row, length: int, train: int, training: Row, seed: int = 0, **objective: Any) -> Any:
    from contrastive.config.cell import Cell, Data, Encoder, Training
    from contrastive.config.objective import Objective

    return Cell(
        data=Data(source=f"file:{file}", train=train, test=32, max_length=length),
        encoder=Encoder.model_validate(encoder),
        objective=Objective(**{"loss": "ce", **objective}),
        training=Training(**{"epochs": 1, "batch_size": train // 10, "head_lr": 1e-3, "encoder_lr": 1e-4, **training}),
        seed=seed,
    ).canonical()


@contextmanager
def home() -> Iterator[Path]:
    """Give run folders and caches a temporary place."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ABLATE_HOME"] = folder
        yield Path(folder)


def trained(asked: Any) -> Path:
    """Train a cell as a grid does; return its folder."""
    from contrastive.grid.identity import cell_id, identity
    from contrastive.runs import store
    from contrastive.training.request import TrainRequest
    from contrastive.training.train_cell import train_cell

    folder = store.run_folder(cell_id(identity(asked)))
    train_cell(folder, TrainRequest(asked, "a cell", 10**9))
    return folder


def described(folder: Path) -> Row:
    """Return what a trained cell's files say of it."""
    provenance = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    row: Row = {
        "seconds": provenance["wall_seconds"],
        "steps": len(lines),
        "texts/s": statistics.median(line["examples_per_second"] for line in lines),
        "first loss": lines[0]["loss"],
        "last loss": lines[-1]["loss"],
        "peak MiB": (provenance["peak_memory_bytes"] or 0) // 2**20,
    }
    if provenance["micro_batch"]:
        row["micro-batch"] = provenance["micro_batch"]
    if provenance["energy_joules"]:
        row["joules"] = provenance["energy_joules"]["gpu"]
    return row


def weights(folder: Path) -> str:
    from contrastive.runs import store

    return store.digest_file(folder / "checkpoint" / "weights.safetensors")


def tried(name: str, work: Callable[[], Row]) -> Row:
    """Return the row of some work, with its error if it fails."""
    try:
        return {"": name} | work()
    except Exception as error:
        traceback.print_exc()
        return {"": name, "error": f"{type(error).__name__}: {error}"[-600:]}


def verdicts(sizes: Sizes) -> Iterator[Row]:
    """Train the quickstart on the GPU, again, and on the CPU: same bits again, same verdicts on both."""
    import torch

    with tempfile.TemporaryDirectory() as place:
        file = experiment_file(sizes, Path(place))
        ways = {"cpu": "", "gpu": None, "gpu again": None} if torch.cuda.is_available() else {"cpu": "", "again": ""}
        for way, devices in ways.items():
            prepare(file, Path(place) / way, devices)
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


def prepare(file: Path, folder: Path, devices: str | None) -> None:
    program = [sys.executable, "-m", "benchmarks.one_cell", str(file), "prepare"]
    subprocess.run(program, env=environment_of(folder, devices), check=True)


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


MODES: dict[str, Row] = {
    "fp32": {},
    "fp32 again": {},
    "bf16": {"training": {"precision": "bf16"}},
    "bf16 again": {"training": {"precision": "bf16"}},
    "fp16": {"training": {"precision": "fp16"}},
    "LoRA": {"encoder": {"tune": {"lora": {"r": 8}}}, "training": {"encoder_lr": 1e-2}},
    "frozen blocks with dropout": {"encoder": {"tune": {"last_blocks": 1}}},
    "frozen blocks from the store": {"encoder": {"tune": {"last_blocks": 1, "frozen_dropout": False}}},
    "top-4 tokens": {"loss": "ce+supcon", "view": "topk_tokens", "k": 4},
    "GradCache": {"loss": "simcse", "training": {"micro_batch": 4}},
    "GradCache, whole batch": {"loss": "simcse"},
    "MoCo": {"loss": "moco", "view": "momentum", "queue": 64},
    "R-Drop": {"loss": "rdrop", "view": "one_stage"},
}


def modes(sizes: Sizes) -> Iterator[Row]:
    """Train one cell in each mode; a mode named `again` must give the bits of the one before it."""
    import torch

    with home() as folder:
        long = sizes.of(510, 16)
        source = texts(folder / "texts.csv", sizes.of(400, 80), long)
        before = ""
        for name, given in MODES.items():
            if name == "fp16" and not torch.cuda.is_available():
                yield {"": name, "error": "needs a GPU"}
                continue
            os.environ["ABLATE_HOME"] = str(folder / name)

            def work(given: Row = given) -> Row:
                options = {"encoder": {}, "training": {}} | given
                encoder, training = sizes.encoder(**options.pop("encoder")), options.pop("training")
                done = trained(cell(source, encoder, long, sizes.of(320, 32), training, **options))
                return described(done) | {"weights": weights(done)}

            row = tried(name, work)
            digest = row.pop("weights", "none")
            yield row | ({"equal bits": digest == before} if name.endswith("again") else {})
            before = digest
        os.environ["ABLATE_HOME"] = str(folder / "memory")
        yield tried("out of memory, halved", lambda: out_of_memory(sizes, source, long))


def out_of_memory(sizes: Sizes, source: Path, length: int) -> Row:
    """Train a batch that does not fit in the share of the GPU's memory that this process may use."""
    import torch

    if not torch.cuda.is_available():
        return {"error": "needs a GPU"}
    torch.cuda.empty_cache()
    share = (2 if sizes.quick else 4) * 2**30 / torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(share)
    try:
        asked = cell(
            source, sizes.encoder(), length, sizes.of(320, 32), {"batch_size": sizes.of(320, 32)}, loss="simcse"
        )
        return described(trained(asked))
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


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


def speed(sizes: Sizes) -> Iterator[Row]:
    """Time a step of random base encoders: ours, a plain PyTorch loop, the same compiled, and transformers' Trainer."""

    peak = product_rate(sizes)
    yield {"": f"a product of two bf16 matrices: {peak / 1e12:.0f} TFLOP/s"}
    systems = {"ours": ours, "plain loop": plain_loop, "plain loop, compiled": compiled_loop, "Trainer": trainer}
    shapes = [(16, 8)] if sizes.quick else [(510, 32), (128, 64)]
    for kind, (length, batch) in product(("bert", "deberta-v2"), shapes):
        with home() as folder:
            count = batch * (WARM + sizes.of(30, 4))
            training = {"batch_size": batch, "precision": "bf16", "bucket": 1}
            source = texts(folder / "texts.csv", count + 32, length)
            asked = cell(source, sizes.encoder(kind, BASE), length, count, training)
            for name, system in systems.items():
                if name.endswith("compiled") and (kind, length) != ("bert", 510):
                    continue
                yield tried(f"{kind} {length} × {batch}: {name}", lambda s=system, a=asked: rated(s(a), peak))


class Timed(NamedTuple):
    """A trainer's steps after the first few: tokens, floating-point operations of a step, times and memory."""

    tokens: float
    flops: float
    seconds: float
    steps: int
    busy: float | None = None
    kernels: str = ""


def rated(run: Timed, peak: float) -> Row:
    import torch

    rate = run.flops * run.steps / run.seconds
    row: Row = {"tokens/s": run.tokens / run.seconds, "ms a step": 1000 * run.seconds / run.steps}
    if run.flops:
        row |= {"TFLOP/s": rate / 1e12, "of the product": rate / peak}
    if torch.cuda.is_available():
        row |= {"peak MiB": torch.cuda.max_memory_allocated() // 2**20}
    return row | ({} if run.busy is None else {"GPU busy": run.busy, "kernels": run.kernels})


def synchronize() -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


def product_rate(sizes: Sizes) -> float:
    import torch

    size = sizes.of(8192, 256)
    left, right = (torch.randn(size, size, device=device(), dtype=torch.bfloat16) for _ in range(2))
    for _ in range(3):
        left @ right
    synchronize()
    begin = time.perf_counter()
    for _ in range(20):
        left @ right
    synchronize()
    return 20 * 2 * size**3 / (time.perf_counter() - begin)


def device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def ours(asked: Any) -> Timed:
    """Train as a cell trains, with audit and log; profile a few of the last steps."""
    from contrastive.config.experiment import Speed
    from contrastive.data import tokens as token_store
    from contrastive.evaluation.prepare import prepare_cell_tokens
    from contrastive.models.frozen import PassCache
    from contrastive.training.train import CellTraining

    tokens = token_store.open_tokens(prepare_cell_tokens(asked))
    folder = Path(os.environ["ABLATE_HOME"])
    run = CellTraining(asked, folder, tokens, checkpoint_every=10**9, speed=Speed(), passes=PassCache())
    steps, profiled = run.steps(), 5 if run.total > 4 * WARM else 0
    for _ in range(WARM):
        next(steps)
    synchronize()
    begin, counted = time.perf_counter(), run.total - WARM - profiled
    for _ in range(counted):
        next(steps)
    synchronize()
    seconds = time.perf_counter() - begin
    busy, kernels = busy_share(lambda: [next(steps) for _ in range(profiled - 1)]) if profiled else (None, "")
    lengths = tokens.splits["train"].lengths
    batch = asked.training.batch_size
    return Timed(float(lengths.mean()) * batch * counted, flops_of(asked, tokens), seconds, counted, busy, kernels)


def busy_share(work: Callable[[], Any]) -> tuple[float | None, str]:
    """Return the share of the time in which the GPU computes, and the kernels that take longest."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    if not torch.cuda.is_available():
        return None, ""
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        begin = time.perf_counter()
        work()
        synchronize()
        passed = time.perf_counter() - begin
    spans, total = [], dict[str, float]()
    for event in profiler.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            spans.append((event.time_range.start, event.time_range.end))
            total[event.name] = total.get(event.name, 0.0) + event.time_range.end - event.time_range.start
    busy, reached = 0.0, 0.0
    for start, end in sorted(spans):
        busy += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    longest = sorted(total, key=lambda name: -total[name])[:6]
    return busy / 1e6 / passed, "; ".join(f"{100 * total[n] / busy:.0f} % {n[:60]}" for n in longest)


def model_and_batches(asked: Any) -> tuple[Any, list[Any], Any]:
    """Return a plain encoder with a head, and the batches of a cell on the device."""
    import torch
    from torch import nn

    from contrastive.data import tokens as token_store
    from contrastive.evaluation.prepare import prepare_cell_tokens
    from contrastive.models.encoder import random_encoder
    from contrastive.views.batches import collate, optimizer_steps

    tokens = token_store.open_tokens(prepare_cell_tokens(asked))
    split = tokens.splits["train"]
    backbone = random_encoder(asked.encoder, tokens.vocab_size, tokens.pad_id)
    model = (
        nn.ModuleDict({"backbone": backbone, "head": nn.Linear(backbone.config.hidden_size, 2)}).to(device()).train()
    )
    batches = [
        collate(split, indices, tokens.pad_id, tokens.special_ids).to(device())
        for _, (indices,) in optimizer_steps(asked, tokens)
    ]
    torch.manual_seed(0)
    return model, batches, tokens


def loss_of(model: Any, batch: Any) -> Any:
    import torch
    import torch.nn.functional as F

    with torch.autocast(device(), torch.bfloat16):
        states = model["backbone"](
            input_ids=batch.input_ids, attention_mask=batch.attention_mask.long()
        ).last_hidden_state
        return F.cross_entropy(model["head"](states[:, 0]).float(), batch.labels)


def flops_of(asked: Any, tokens: Any) -> float:
    """Count the operations of the matrix products of one step, forward and backward, as PyTorch counts them."""
    from torch.utils.flop_counter import FlopCounterMode

    model, batches, _ = model_and_batches(asked)
    with FlopCounterMode(display=False) as counter:
        loss_of(model, batches[0]).backward()
    return float(counter.get_total_flops())


def plain_loop(asked: Any, change: Callable[[Any], Any] = lambda model: model) -> Timed:
    import torch

    torch.use_deterministic_algorithms(False)  # as a user's loop has it; our cells have set it
    model, batches, tokens = model_and_batches(asked)
    flops = flops_of(asked, tokens)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device() == "cuda")
    model["backbone"] = change(model["backbone"])
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()

    def step(batch: Any) -> None:
        loss_of(model, batch).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for batch in batches[:WARM]:
        step(batch)
    synchronize()
    begin = time.perf_counter()
    for batch in batches[WARM:]:
        step(batch)
    synchronize()
    seconds = time.perf_counter() - begin
    real = sum(int(batch.attention_mask.sum()) for batch in batches[WARM:])
    busy, kernels = busy_share(lambda: [step(batch) for batch in batches[:4]])
    return Timed(real, flops, seconds, len(batches) - WARM, busy, kernels)


def compiled_loop(asked: Any) -> Timed:
    import torch

    return plain_loop(asked, torch.compile)


def trainer(asked: Any) -> Timed:
    """Train by transformers' Trainer, on tokens made before, padded to the longest of a batch."""
    import torch
    from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

    from benchmarks.peers import Clock

    model, batches, tokens = model_and_batches(asked)
    flops = flops_of(asked, tokens)
    classifier = AutoModelForSequenceClassification.from_config(model["backbone"].config)
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    split, clock = tokens.splits["train"], Clock()
    ids = [split.ids[split.offsets[at] : split.offsets[at + 1]].tolist() for at in range(len(split))]
    data = [{"input_ids": row, "labels": int(label)} for row, label in zip(ids, split.labels, strict=True)]
    longest = max(map(len, ids))

    def padded(rows: list[Row]) -> dict[str, Any]:
        kept = torch.tensor([row["input_ids"] + [tokens.pad_id] * (longest - len(row["input_ids"])) for row in rows])
        mask = torch.tensor([[1] * len(row["input_ids"]) + [0] * (longest - len(row["input_ids"])) for row in rows])
        return {"input_ids": kept, "attention_mask": mask, "labels": torch.tensor([row["labels"] for row in rows])}

    settings = TrainingArguments(
        output_dir=os.environ["ABLATE_HOME"], num_train_epochs=1, learning_rate=1e-4, bf16=True, report_to="none",
        per_device_train_batch_size=asked.training.batch_size, save_strategy="no", logging_strategy="no",
        disable_tqdm=True, use_cpu=device() == "cpu", optim=f"adamw_torch{'_fused' if device() == 'cuda' else ''}",
    )  # fmt: skip
    Trainer(model=classifier, args=settings, train_dataset=data, data_collator=padded, callbacks=[clock]).train()
    synchronize()
    clock.times[-1] = time.time()
    after = clock.times[2 * WARM :]  # begin of the first step after the warm ones
    steps = len(batches) - WARM
    return Timed(float(split.lengths.mean()) * asked.training.batch_size * steps, flops, after[-1] - after[0], steps)


def packing(sizes: Sizes) -> Iterator[Row]:
    """Train small cells on one GPU: one after another, several processes at once, and in turns in one process."""
    with home() as folder:
        source = texts(folder / "texts.csv", sizes.of(600, 80), sizes.of(40, 16))
        alone: dict[str, float] = {}
        for tuned, way, count in PACKINGS[: sizes.of(len(PACKINGS), 3)]:
            tune = {} if tuned == "all blocks" else {"last_blocks": 2}
            place = folder / f"{way}{count}{len(tune)}"
            row = tried(
                f"{tuned}: {count} at once, by {way}",
                lambda w=way, c=count, p=place, t=tune: packed(w, c, p, source, sizes, t),
            )
            rate = row.get("cells an hour", 0.0)
            yield row | {"times as many as one at a time": rate / alone.setdefault(tuned, rate or 1.0)}


PACKINGS = (
    ("all blocks", "processes", 1), ("all blocks", "processes", 4), ("all blocks", "turns", 4),
    ("last two", "processes", 1), ("last two", "processes", 4), ("last two", "turns", 4),
    ("all blocks", "processes", 8), ("all blocks", "processes", 2), ("last two", "turns", 8),
    ("last two", "processes", 8),
)  # fmt: skip
CELLS_EACH = 2  # that a process trains one after another


def packed(way: str, count: int, place: Path, source: Path, sizes: Sizes, tune: Row) -> Row:
    """Train cells at once in workers that have imported everything and trained one cell each; return the rate."""
    place.mkdir()
    workers, each = (count, CELLS_EACH) if way == "processes" else (1, count)
    asked = json.dumps([way, each, str(source), sizes.quick, tune])
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
    return {"cells": workers * each, "seconds": seconds, "cells an hour": 3600 * workers * each / seconds}


def worker(asked: str, number: str) -> None:
    """Warm up, wait for the end of standard input, and train cells."""
    from contrastive.grid.identity import cell_id, identity
    from contrastive.runs import store
    from contrastive.training.request import TrainRequest
    from contrastive.training.turns import train_interleaved

    way, count, source, quick, tune = json.loads(asked)
    sizes = Sizes(quick)

    def small(seed: int) -> Any:
        training = {"epochs": sizes.of(4, 1), "batch_size": 32 if not quick else 8}
        return cell(Path(source), sizes.encoder(tune=tune), sizes.of(40, 16), sizes.of(512, 32), training, seed)

    trained(small(10_000 + int(number)))
    print("ready", flush=True)
    sys.stdin.read()
    cells = [small(100 * int(number) + seed) for seed in range(count)]
    if way == "processes":
        for each in cells:
            trained(each)
        return
    requests = {
        store.run_folder(cell_id(identity(each))): TrainRequest(each, "a cell", 10**9, together=count) for each in cells
    }
    reports = train_interleaved(requests)
    assert not any(reports.values()), reports


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


PARTS = {
    "verdicts": Part("the quickstart on CPU and GPU", verdicts, 110),
    "modes": Part("a cell in each mode", modes, 80),
    "speed": Part("steps of base encoders", speed, 130),
    "sharding": Part("ZeRO, FSDP and two processes", sharding, 70),
    "packing": Part("small cells at once", packing, 70),
    "energy": Part("NVML beside the record", energy, 20),
}


def main() -> None:
    name, *options = sys.argv[1:]
    if name == "worker":
        return worker(*options)
    for row in PARTS[name].rows(Sizes("--quick" in options)):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
