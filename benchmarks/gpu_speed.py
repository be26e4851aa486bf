"""The speed of base encoders on a GPU: a step of ours, of a plain PyTorch loop, and of two trainers."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from flows.gpu_check import Row, Sizes, cell, home, texts, tried

BASE = {"layers": 12, "hidden": 768, "heads": 12, "vocabulary": 4000}
WARM = 10  # steps before the clock


def speed(sizes: Sizes) -> Iterator[Row]:
    """Time a step of random base encoders: ours, a plain PyTorch loop, and the trainers of others."""
    peak = product_rate(sizes)
    yield {"": f"a product of two bf16 matrices: {peak / 1e12:.0f} TFLOP/s"}
    systems = {
        "ours": ours, "plain loop": plain_loop, "Trainer": trainer, "sentence-transformers": sentence_trainer,
        "plain loop, compiled": compiled_loop,
    }  # fmt: skip
    shapes = [("bert", 510, 32), ("deberta-v2", 510, 32), ("bert", 128, 64), ("deberta-v2", 128, 64)]
    with home() as folder:
        for kind, length, batch in [("bert", 16, 8), ("deberta-v2", 16, 8)] if sizes.quick else shapes:
            count = batch * (WARM + sizes.of(30, 4))
            training = {"batch_size": batch, "precision": "bf16", "bucket": 1}
            source = texts(folder / f"{kind}.{length}.csv", count + 32, length)
            asked = cell(source, sizes.encoder(kind, BASE), length, count, training)
            flops = flops_of(asked)
            for name, system in systems.items():
                if length != 128 or name in ("ours", "plain loop", "Trainer"):
                    yield tried(f"{kind} {length} × {batch}: {name}", partial(rated, system, asked, flops, peak))


class Timed(NamedTuple):
    """A trainer's steps after the first few: their tokens, seconds and number, and what kernels did meanwhile."""

    tokens: float
    seconds: float
    steps: int
    busy: float | None = None
    kernels: str = ""


def rated(system: Callable[[Any], Timed], asked: Any, flops: float, peak: float) -> Row:
    """Run a system on a cell; return its rates and the peak of its memory."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    run = system(asked)
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


def ours(asked: Any) -> Timed:
    """Train as a cell trains, with audit and log; profile a few of the last steps."""
    from contrastive.config.experiment import Speed
    from contrastive.data import tokens as token_store
    from contrastive.evaluation.prepare import prepare_cell_tokens
    from contrastive.training.train import CellTraining

    tokens = token_store.open_tokens(prepare_cell_tokens(asked))
    folder = Path(os.environ["ABLATE_HOME"])
    run = CellTraining(asked, folder, tokens, checkpoint_every=10**9, speed=Speed())
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
    lengths = tokens.splits["train"].lengths
    batch = asked.training.batch_size
    return Timed(float(lengths.mean()) * batch * counted, seconds, counted, busy, kernels)


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


def flops_of(asked: Any) -> float:
    """Count the operations of the matrix products of one step, forward and backward, as PyTorch counts them."""
    from torch.utils.flop_counter import FlopCounterMode

    model, batches, _ = model_and_batches(asked)
    with FlopCounterMode(display=False) as counter:
        loss_of(model, batches[0]).backward()
    return float(counter.get_total_flops())


def plain_loop(asked: Any, change: Callable[[Any], Any] = lambda model: model) -> Timed:
    import torch

    torch.use_deterministic_algorithms(False)  # as a user's loop has it; our cells have set it
    model, batches, _ = model_and_batches(asked)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device() == "cuda")
    model["backbone"] = change(model["backbone"])

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
    return Timed(real, seconds, len(batches) - WARM, busy, kernels)


def compiled_loop(asked: Any) -> Timed:
    import torch

    return plain_loop(asked, torch.compile)


def trainer(asked: Any) -> Timed:
    """Train by transformers' Trainer, on tokens made before, padded to the longest of a batch."""
    import torch
    from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

    from benchmarks.peers import Clock

    model, _, tokens = model_and_batches(asked)
    classifier = AutoModelForSequenceClassification.from_config(model["backbone"].config)
    split, clock = tokens.splits["train"], Clock()
    ids = [split.ids[split.offsets[at] : split.offsets[at + 1]].tolist() for at in range(len(split))]
    data = [{"input_ids": row, "labels": int(label)} for row, label in zip(ids, split.labels, strict=True)]
    longest = max(map(len, ids))

    def padded(rows: list[Row]) -> dict[str, Any]:
        kept = torch.tensor([row["input_ids"] + [tokens.pad_id] * (longest - len(row["input_ids"])) for row in rows])
        mask = torch.tensor([[1] * len(row["input_ids"]) + [0] * (longest - len(row["input_ids"])) for row in rows])
        return {"input_ids": kept, "attention_mask": mask, "labels": torch.tensor([row["labels"] for row in rows])}

    settings = TrainingArguments(**trainer_settings(asked))
    Trainer(model=classifier, args=settings, train_dataset=data, data_collator=padded, callbacks=[clock]).train()
    return timed(asked, clock, tokens)


def trainer_settings(asked: Any) -> dict[str, Any]:
    return {
        "output_dir": os.environ["ABLATE_HOME"], "num_train_epochs": 1, "learning_rate": 1e-4, "bf16": True,
        "per_device_train_batch_size": asked.training.batch_size, "save_strategy": "no", "logging_strategy": "no",
        "disable_tqdm": True, "report_to": "none", "use_cpu": device() == "cpu",
        "optim": f"adamw_torch{'_fused' if device() == 'cuda' else ''}",
    }  # fmt: skip


def timed(asked: Any, clock: Any, tokens: Any) -> Timed:
    """Return what a trainer's clock says of the steps after the warm ones."""
    synchronize()
    clock.times[-1] = time.time()
    after = clock.times[2 * WARM :]  # begin of the first step after the warm ones
    batch, steps = asked.training.batch_size, len(after) // 2
    return Timed(float(tokens.splits["train"].lengths.mean()) * batch * steps, after[-1] - after[0], steps)


def sentence_trainer(asked: Any) -> Timed:
    """Train by sentence-transformers' trainer, which makes the tokens of each batch as it goes."""
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
    from sentence_transformers import SentenceTransformerTrainingArguments as Arguments
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    from benchmarks.peers import Clock

    model, _, tokens = model_and_batches(asked)
    folder = Path(os.environ["ABLATE_HOME"], "encoder")
    model["backbone"].save_pretrained(folder)
    shutil.copytree(tokens.tokenizer, folder, dirs_exist_ok=True)
    first = Transformer(str(folder), max_seq_length=asked.data.max_length)
    encoder = SentenceTransformer(
        modules=[first, Pooling(model["backbone"].config.hidden_size, "cls")], device=device()
    )
    read = pd.read_csv(asked.data.source.removeprefix("file:")).head(asked.data.train)
    data = Dataset.from_dict({"text": read["text"].tolist(), "label": (read["label"] == "b").astype(int).tolist()})
    clock, settings, loss = Clock(), Arguments(**trainer_settings(asked)), classification(encoder, model["head"])
    SentenceTransformerTrainer(model=encoder, args=settings, train_dataset=data, loss=loss, callbacks=[clock]).train()
    return timed(asked, clock, tokens)


def classification(encoder: Any, head: Any) -> Any:
    """Return cross-entropy as a loss of sentence-transformers, which has it for pairs of texts alone."""
    import torch.nn.functional as F
    from torch import nn

    class Classification(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.head = encoder, head

        def forward(self, features: Any, labels: Any) -> Any:
            (texts,) = features
            return F.cross_entropy(self.head(self.encoder(texts)["sentence_embedding"]).float(), labels)

    return Classification()
