"""The story of one cell: tokens → model → steps → weights. It meets the other stages in the run folder.

The numbers of a cell follow from its seed alone: initial weights, dropout and views from torch's generator, the order
of batches from (seed, epoch). A cell resumed from its last checkpoint ends with the numbers of an undisturbed one.
"""

import io
import json
import math
import os
import pickle
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState
from accelerate.utils import set_seed
from safetensors.torch import save
from torch.optim.lr_scheduler import LambdaLR

from contrastive import gradcache, permit, tuning
from contrastive import model as models
from contrastive.audit import Audit
from contrastive.batches import collate, order
from contrastive.config import Cell, Training
from contrastive.data.tokens import Tokens
from contrastive.diagnostics import geometry
from contrastive.errors import UserError
from contrastive.gather import anywhere, averaged, leave_out, of_all_processes, whole_batch
from contrastive.step import floors, terms
from contrastive.store import write_atomic

APART = 1_000_003  # between the seeds of two processes
LOOK_EVERY = 20  # steps between two looks at the vectors' shape, and at each term's gradient: a backward pass a term


class Diverged(ArithmeticError):
    """The loss stopped being a number; a result, not a fault."""

    def __init__(self, step: int, name: str, value: float):
        super().__init__(f"{name} became {value} at step {step}")
        self.step = step


def train(
    cell: Cell, folder: Path, tokens: Tokens, *, checkpoint_every: int, each_step: Callable[[], None] = lambda: None
) -> models.Model:
    """Train one cell; leaves metrics.jsonl and checkpoint/weights.safetensors in a folder. `each_step` may stop it."""
    accelerator = start(cell)
    first_process = accelerator.is_main_process
    model = models.build(cell, tokens).to(accelerator.device)
    optimizer = torch.optim.AdamW(tuning.groups(model, cell.training, cell.encoder.tune))
    total = count_steps(cell.training, len(tokens.splits["train"]))
    scheduler = LambdaLR(optimizer, lambda done: rate(done, total, cell.training))
    weights = cell.objective.terms()
    audit = Audit(model, optimizer, weights, weights)
    leave_out(model, "losses.")
    prepared, optimizer = accelerator.prepare(model, optimizer)
    begin(model, tokens, accelerator.device)
    if accelerator.process_index > 0:
        set_seed(cell.seed + APART * accelerator.process_index)  # else its texts would have the first one's dropout
    first = resume(folder, model, optimizer, scheduler, accelerator)
    model.train()

    with open(folder / "metrics.jsonl" if first_process else os.devnull, "a", encoding="utf-8") as log:
        for step, (epoch, batches) in enumerate(steps(cell, tokens)):
            if step < first:
                continue
            each_step()
            if anywhere(permit.revoked(), accelerator.device):
                save_checkpoint(folder, step, model, optimizer, scheduler, accelerator)
                accelerator.wait_for_everyone()
                raise permit.Stopped
            began = time.perf_counter()
            line: dict[str, Any] = {"step": step, "epoch": epoch}
            norms: dict[str, float] = {}
            for position, indices in enumerate(batches):
                own = np.array_split(indices, accelerator.num_processes)[accelerator.process_index]
                batch = collate(tokens.splits["train"], own, tokens.pad_id, tokens.special_ids).to(accelerator.device)
                with accelerator.autocast():
                    encoded = gradcache.encode(prepared, batch, cell.training.micro_batch)
                    output, labels = whole_batch(encoded.output, batch.labels)
                    values = terms(output, labels, cell.objective, model.losses)
                    loss = torch.stack([weights[name] * value for name, value in values.items()]).sum()
                note_losses(line, values, loss, step, share=1 / len(batches))
                if position == 0:
                    note_floors(line, values, floors(output, labels, cell.objective))
                    if step % LOOK_EVERY == 0:
                        line |= geometry(output.sentences[:, 0])
                    if step % LOOK_EVERY == 0 or audit.silent_terms:
                        norms = audit.look_at_terms(values, averaged(encoded.gradients))
                accelerator.backward(loss / len(batches))
                encoded.finish()
            audit.saw_gradients()
            if step % LOOK_EVERY == 0:
                line |= {f"gradient_norm.{name}": norm for name, norm in norms.items()}
            line["gradient_norm"] = float(
                accelerator.clip_grad_norm_(audit.parameters.values(), clip_at(cell.training))
            )
            line |= {f"lr.{group['name']}": group["lr"] for group in optimizer.param_groups if group.get("shown")}
            optimizer.step()
            model.after_step((step + 1) / total)
            if not optimizer.step_was_skipped:
                scheduler.step()
            audit.saw_step()
            optimizer.zero_grad(set_to_none=True)
            line |= speed(tokens, batches, time.perf_counter() - began, accelerator.device)
            log.write(json.dumps(line) + "\n")
            log.flush()
            if (step + 1) % checkpoint_every == 0 and step + 1 < total:
                save_checkpoint(folder, step + 1, model, optimizer, scheduler, accelerator)
    for name, parameter in audit.parameters.items():  # the last step has no loss after it
        if not bool(parameter.isfinite().all()):
            raise Diverged(total - 1, name, float(parameter.detach().sum()))
    audit.verdict()
    if first_process:
        save_weights(model, cell, folder)
    return model


def start(cell: Cell) -> Accelerator:
    """A fresh Accelerator and fresh random state, also in a process that has trained other cells before."""
    torch.set_num_threads(cell.training.threads)
    torch.use_deterministic_algorithms(True, warn_only=True)
    AcceleratorState._reset_state(True)
    GradientState._reset_state()
    precision = "no" if cell.training.precision == "fp32" else cell.training.precision
    if precision == "fp16" and not torch.cuda.is_available():
        raise UserError("precision fp16 needs a GPU, and there is none here: take bf16 or fp32")
    accelerator = Accelerator(mixed_precision=precision, cpu=not torch.cuda.is_available())
    if accelerator.num_processes != cell.training.processes:
        raise UserError(
            f"the cell trains in {cell.training.processes} processes, and {accelerator.num_processes} were started"
        )
    set_seed(cell.seed)
    return accelerator


def begin(model: models.Model, tokens: Tokens, device: torch.device) -> None:
    """Show the training texts' embeddings by the untrained encoder to the losses that begin from them."""
    losses: list[Any] = list(model.losses.values())
    for loss in losses:
        if hasattr(loss, "begin"):
            texts = tokens.splits["train"]
            parts = np.array_split(np.arange(len(texts)), math.ceil(len(texts) / 64))
            batches = [collate(texts, part, tokens.pad_id, tokens.special_ids).to(device) for part in parts]
            loss.begin(torch.cat([model.predict(batch)[0] for batch in batches]))


def steps(cell: Cell, tokens: Tokens) -> Iterator[tuple[int, list[np.ndarray]]]:
    """The batches of each optimizer step, as (epoch, batches): the same for every cell of the same data and seed.

    A last batch of fewer texts than there are processes is left out.
    """
    training, lengths = cell.training, tokens.splits["train"].lengths
    for epoch in range(training.epochs):
        batches = order(lengths, training.batch_size, training.bucket, cell.seed, epoch)
        batches = [batch for batch in batches if len(batch) >= training.processes]
        for begin in range(0, len(batches), training.accumulate):
            yield epoch, batches[begin : begin + training.accumulate]


def count_steps(training: Training, texts: int) -> int:
    whole, rest = divmod(texts, training.batch_size)
    batches = whole + (rest >= training.processes)
    return training.epochs * math.ceil(batches / training.accumulate)


def rate(done: int, total: int, training: Training) -> float:
    """Factor on the learning rates for the step after `done` steps; never 0, so that every step trains."""
    warm = math.ceil(training.warmup * total)
    if done < warm:
        return (done + 1) / (warm + 1)
    left = (total - done) / max(1, total - warm)
    return {"constant": 1.0, "linear": left, "cosine": 0.5 * (1 - math.cos(math.pi * left))}[training.schedule]


def clip_at(training: Training) -> float:
    return training.clip or math.inf


def note_losses(
    line: dict[str, Any], values: dict[str, torch.Tensor], loss: torch.Tensor, step: int, share: float
) -> None:
    for name, value in ({f"loss.{name}": value for name, value in values.items()} | {"loss": loss}).items():
        number = float(value.detach())
        if not math.isfinite(number):
            raise Diverged(step, name, number)
        line[name] = line.get(name, 0.0) + share * number


def note_floors(line: dict[str, Any], values: dict[str, torch.Tensor], lowest: dict[str, torch.Tensor]) -> None:
    for name, floor in lowest.items():
        line[f"excess.{name}"] = float(values[name].detach() - floor)


def speed(tokens: Tokens, batches: list[np.ndarray], seconds: float, device: torch.device) -> dict[str, float]:
    lengths = tokens.splits["train"].lengths
    count = sum(len(indices) for indices in batches)
    line = {
        "examples_per_second": count / seconds,
        "tokens_per_second": sum(int(lengths[indices].sum()) for indices in batches) / seconds,
    }
    if device.type == "cuda":
        line["memory_mib"] = torch.cuda.max_memory_allocated(device) / 2**20
    return line


def save_weights(model: models.Model, cell: Cell, folder: Path) -> None:
    """What training changed; the rest comes from the encoder itself, but for one that began at random."""
    everything = cell.encoder.model.startswith("scratch:")
    trained = {name for name, p in model.named_parameters() if p.requires_grad or everything}
    state = {name: t.detach().cpu().contiguous() for name, t in model.state_dict().items() if name in trained}
    write_atomic(folder / "checkpoint" / "weights.safetensors", save(state))


def save_checkpoint(
    folder: Path, step: int, model: torch.nn.Module, optimizer: Any, scheduler: LambdaLR, accelerator: Accelerator
) -> None:
    """All that the next step depends on. The first process writes it, with the random state of each."""
    random = of_all_processes(gradcache.random_state())
    if not accelerator.is_main_process:
        return
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    follows = ("slow.", "losses.")  # the slow copy, a queue, what a batch norm has seen
    state = {
        "step": step,
        "model": {n: tensor for n, tensor in model.state_dict().items() if n in trained or n.startswith(follows)},
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "scaler": accelerator.scaler.state_dict() if accelerator.scaler else {},
        "random": random,
    }
    content = io.BytesIO()
    torch.save(state, content)
    write_atomic(folder / "resume" / "state.pt", content.getvalue())


def resume(folder: Path, model: Any, optimizer: Any, scheduler: LambdaLR, accelerator: Accelerator) -> int:
    """Take up the last checkpoint of an interrupted attempt, if it is whole; returns the first step to do."""
    log, state = folder / "metrics.jsonl", checkpoint(folder)
    lines = log.read_text(encoding="utf-8").splitlines(keepends=True) if log.exists() else []
    whole = state is not None and len(lines) >= state["step"]
    step = of_all_processes(state["step"] if state is not None and whole else 0)[0]
    if accelerator.is_main_process:
        log.write_text("".join(lines[:step]), encoding="utf-8")
    if step == 0:
        return 0
    assert state is not None, "the first process found a checkpoint that this one cannot read"
    model.load_state_dict(state["model"], strict=False)
    optimizer.load_state_dict(state["optimizer"])
    scheduler.load_state_dict(state["scheduler"])
    if accelerator.scaler:
        accelerator.scaler.load_state_dict(state["scaler"])
    gradcache.set_random_state(state["random"][accelerator.process_index])
    return int(step)


def checkpoint(folder: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = torch.load(folder / "resume" / "state.pt", map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError):  # there is none, or not the whole of it
        return None
    return found
