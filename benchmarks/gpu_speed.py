"""The speed of base encoders on a GPU: a step of ours, of a plain PyTorch loop, and of transformers' Trainer."""

import gc
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flows.gpu_check import TINY, Row, Sizes, cell, home, texts, tried

BASE = {"layers": 12, "hidden": 768, "heads": 12, "vocabulary": 4000}
WARM = 10  # steps before the clock
SPECIAL = 5  # the first tokens of a vocabulary, which no text has


@dataclass(frozen=True)
class Work:
    """Steps of classification by a random encoder; each fourth text is half as long as the others."""

    kind: str
    shape: Row
    length: int
    batch: int
    steps: int

    def lengths(self) -> list[int]:
        return [self.length if number % 4 else self.length // 2 for number in range(self.batch * self.steps)]

    def tokens(self, steps: int) -> float:
        return statistics.fmean(self.lengths()) * self.batch * steps

    def rows(self) -> list[list[int]]:
        """Return each text's tokens, drawn at random."""
        generator = np.random.default_rng(0)
        return [generator.integers(SPECIAL, self.shape["vocabulary"], length).tolist() for length in self.lengths()]


def speed(sizes: Sizes) -> Iterator[Row]:
    """Time a step of random base encoders: ours, a plain PyTorch loop, and transformers' Trainer."""
    peak = product_rate(sizes)
    yield {"name": f"a product of two bf16 matrices: {peak / 1e12:.0f} TFLOP/s"}
    systems = {"ours": ours, "plain loop": plain_loop, "Trainer": trainer, "plain loop, compiled": compiled_loop}
    shapes = [("bert", 510, 32), ("deberta-v2", 510, 32), ("bert", 128, 64), ("deberta-v2", 128, 64)]
    busy_share(synchronize)  # the profiler takes its time at first, and makes what follows a little slower
    last = "plain loop, compiled"  # which takes longest to begin
    with home():
        chosen = [("bert", 16, 8), ("deberta-v2", 16, 8)] if sizes.quick else shapes
        shape, steps = TINY if sizes.quick else BASE, WARM + sizes.of(30, 4)
        works = [Work(kind, shape, length, batch, steps) for kind, length, batch in chosen]
        counted = {id(work): cache(partial(flops_of, work)) for work in works}
        pairs = [(work, name) for work in works for name in systems if name != last]
        for work, name in pairs + [(work, last) for work in works[: sizes.of(2, 1)]]:
            row = f"{work.kind} {work.length} × {work.batch}: {name}"
            yield tried(row, partial(rated, systems[name], work, counted[id(work)], peak))


class Timed(NamedTuple):
    """A trainer's steps after the first few: their tokens, seconds and number, and what kernels did meanwhile."""

    tokens: float
    seconds: float
    steps: int
    busy: float | None = None
    kernels: str = ""


def rated(system: Callable[[Work], Timed], work: Work, count: Callable[[], float], peak: float) -> Row:
    """Let a system do the work; return its rates and the peak of its memory."""
    import torch

    flops = count()
    gc.collect()  # what the system before this one left
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    run = system(work)
    rate = flops * run.steps / run.seconds
    row: Row = {"tokens/s": run.tokens / run.seconds, "ms a step": 1000 * run.seconds / run.steps}
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


def ours(work: Work) -> Timed:
    """Train as a cell trains, with audit and log; profile a few of the last steps."""
    from contrastive.config.experiment import Speed
    from contrastive.data import tokens as token_store
    from contrastive.evaluation.prepare import prepare_cell_tokens
    from contrastive.training.train import CellTraining

    folder, count = Path(os.environ["ABLATE_HOME"]), work.batch * work.steps
    source = texts(folder / f"{work.kind}.{work.length}.csv", count + 32, work.length)
    training = {"batch_size": work.batch, "precision": "bf16", "bucket": 1}
    recipe = cell(source, {"model": f"scratch:{work.kind}", "scratch": work.shape}, work.length, count, training)
    tokens = token_store.open_tokens(prepare_cell_tokens(recipe))
    run = CellTraining(recipe, folder, tokens, checkpoint_every=10**9, speed=Speed())
    steps, profiled = run.steps(), 5 if run.total > 3 * WARM else 0
    for _ in range(WARM):
        next(steps)
    synchronize()
    begin, counted = time.perf_counter(), run.total - WARM - profiled
    for _ in range(counted):
        next(steps)
    synchronize()
    seconds = time.perf_counter() - begin
    busy, kernels = busy_share(lambda: [next(steps) for _ in range(profiled - 1)]) if profiled else (None, "")
    real = float(tokens.splits["train"].lengths.mean()) * work.batch * counted
    return Timed(real, seconds, counted, busy, kernels)


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


def random_model(work: Work) -> Any:
    """Return an encoder as `scratch:` makes it, by transformers alone."""
    import torch
    from transformers import AutoConfig, AutoModel

    shape = work.shape
    relative = {
        "relative_attention": True, "position_buckets": 256, "norm_rel_ebd": "layer_norm", "share_att_key": True,
        "pos_att_type": ["p2c", "c2p"], "position_biased_input": False, "type_vocab_size": 0,
    }  # fmt: skip
    config = AutoConfig.for_model(
        work.kind, vocab_size=shape["vocabulary"], num_hidden_layers=shape["layers"], hidden_size=shape["hidden"],
        num_attention_heads=shape["heads"], intermediate_size=4 * shape["hidden"], num_labels=2,
        **(relative if work.kind == "deberta-v2" else {}),
    )  # fmt: skip
    torch.manual_seed(0)
    return AutoModel.from_config(config)


def classifier(work: Work) -> Any:
    """Return an encoder with a head, on the device."""
    from torch import nn

    model = nn.ModuleDict({"backbone": random_model(work), "head": nn.Linear(work.shape["hidden"], 2)})
    return model.to(device()).train()


def padded(rows: list[list[int]]) -> Row:
    """Return tokens padded to the longest, and labels of two classes."""
    import torch

    longest = max(map(len, rows))
    return {
        "input_ids": torch.tensor([row + [0] * (longest - len(row)) for row in rows]),
        "attention_mask": torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows]),
        "labels": torch.tensor([len(row) % 2 for row in rows]),
    }


def loss_of(model: Any, batch: Row) -> Any:
    import torch
    import torch.nn.functional as F

    with torch.autocast(device(), torch.bfloat16):
        states = model["backbone"](batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state
        return F.cross_entropy(model["head"](states[:, 0]).float(), batch["labels"])


def batches_of(work: Work) -> list[Row]:
    rows = work.rows()
    parts = [rows[begin : begin + work.batch] for begin in range(0, len(rows), work.batch)]
    return [{name: values.to(device()) for name, values in padded(part).items()} for part in parts]


def flops_of(work: Work) -> float:
    """Count the operations of the matrix products of one step, forward and backward, as PyTorch counts them."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    torch.use_deterministic_algorithms(False)  # our cells have set it
    model = classifier(work)
    with FlopCounterMode(display=False) as counter:
        loss_of(model, batches_of(work)[0]).backward()
    return float(counter.get_total_flops())


def plain_loop(work: Work, change: Callable[[Any], Any] = lambda model: model) -> Timed:
    import torch

    torch.use_deterministic_algorithms(False)  # as a user's loop has it; our cells have set it
    model, batches = classifier(work), batches_of(work)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device() == "cuda")
    model["backbone"] = change(model["backbone"])

    def step(batch: Row) -> None:
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
    seconds, steps = time.perf_counter() - begin, work.steps - WARM
    busy, kernels = busy_share(lambda: [step(batch) for batch in batches[:4]])
    return Timed(work.tokens(steps), seconds, steps, busy, kernels)


def compiled_loop(work: Work) -> Timed:
    import torch

    # for a CPU, kernels of C++ would take half a minute to compile
    return plain_loop(work, partial(torch.compile, backend="inductor" if device() == "cuda" else "eager"))


def trainer(work: Work) -> Timed:
    """Train by transformers' Trainer, on tokens made before, padded to the longest of a batch."""
    from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

    from benchmarks.clocks import Clock

    model, clock = AutoModelForSequenceClassification.from_config(random_model(work).config), Clock()
    settings = TrainingArguments(
        output_dir=os.environ["ABLATE_HOME"], num_train_epochs=1, learning_rate=1e-4, bf16=True,
        per_device_train_batch_size=work.batch, save_strategy="no", logging_strategy="no",
        disable_tqdm=True, report_to="none", use_cpu=device() == "cpu",
        optim=f"adamw_torch{'_fused' if device() == 'cuda' else ''}",
    )  # fmt: skip
    Trainer(model=model, args=settings, train_dataset=work.rows(), data_collator=padded, callbacks=[clock]).train()
    synchronize()
    clock.times[-1] = time.perf_counter()
    after = clock.times[2 * WARM :]  # begin of the first step after the warm ones
    steps = len(after) // 2
    return Timed(work.tokens(steps), after[-1] - after[0], steps)
