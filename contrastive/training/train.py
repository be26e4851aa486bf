"""The story of one cell: tokens → model → steps → weights. It meets the other stages in the run folder.

The numbers of a cell follow from its seed alone: initial weights from torch's generator, dropout and views from
(seed, step), the order of batches from (seed, epoch). A cell resumed from its last checkpoint ends with the numbers of
an undisturbed one.
"""

import io
import json
import math
import os
import pickle
import time
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState
from accelerate.utils import set_seed
from safetensors.torch import save
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from contrastive.config.cell import Cell, Training
from contrastive.config.speed import USUAL, Speed
from contrastive.data.tokens import Tokens
from contrastive.errors import UserError
from contrastive.models import frozen
from contrastive.models import model as models
from contrastive.reuse import untrained_embeddings
from contrastive.reuse.passes import Passes
from contrastive.runs import stopping
from contrastive.runs.store import write_atomic
from contrastive.training import gradcache, sharding
from contrastive.training.collapse import geometry
from contrastive.training.gather import anywhere, of_all_processes, whole_batch
from contrastive.training.gradient_audit import Audit
from contrastive.training.sharding import Shared
from contrastive.training.terms import floors, terms
from contrastive.views.batches import Batch, collate, count_steps, loaded, steps
from contrastive.views.types import Output

LOOK_EVERY = 20  # steps between two looks at the vectors' shape, and at each term's gradient: a backward pass a term


class Diverged(ArithmeticError):
    """The loss stopped being a number; a result, not a fault."""

    def __init__(self, step: int, name: str, value: float):
        super().__init__(f"{name} became {value} at step {step}")
        self.step = step


def train(cell: Cell, folder: Path, tokens: Tokens, *, checkpoint_every: int, speed: Speed = USUAL) -> Shared:
    """Train one cell; leaves metrics.jsonl and checkpoint/weights.safetensors in a folder."""
    passes = Passes(sharing=speed.reuse != "none")
    steps = training(cell, folder, tokens, checkpoint_every=checkpoint_every, speed=speed, passes=passes)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
        passes.forget()


def training(
    cell: Cell,
    folder: Path,
    tokens: Tokens,
    *,
    checkpoint_every: int,
    speed: Speed,
    passes: Passes,
) -> Generator[None, None, Shared]:
    """The same a step at a time, so that several cells may take turns, and share the passes of their frozen blocks."""
    accelerator = start(cell)
    first_process = accelerator.is_main_process
    model = models.build(cell, tokens, speed)
    model.below = passes
    state = checkpoint(folder, first_process)
    if state is None:
        begin(model, cell, tokens, accelerator.device, speed)
    else:
        model.load_state_dict(state["model"], strict=False)
    shared = sharding.share(model, cell, accelerator, speed)
    optimizer = shared.optimizer
    total = count_steps(cell, tokens)
    scheduler = LambdaLR(optimizer, lambda done: rate(done, total, cell.training))
    weights = cell.objective.terms()
    audit = Audit(shared, weights, weights)
    first = resume(state, shared, scheduler, accelerator)
    del state  # a second copy of everything
    model.train()

    coming = loaded(cell, tokens, first, accelerator.process_index, accelerator.device)
    log_file = folder / "metrics.jsonl" if first_process else os.devnull
    with open(log_file, "a", encoding="utf-8") as log, closing(coming):
        for step, (epoch, batches) in enumerate(steps(cell, tokens)):
            if step < first:
                continue
            yield
            if anywhere([stopping.revoked()])[0]:
                save_checkpoint(folder, step, shared, scheduler, accelerator)
                accelerator.wait_for_everyone()
                raise stopping.Stopped
            began = time.perf_counter()
            draw_from(cell.seed, step, accelerator.process_index)
            line: dict[str, Any] = {"step": step, "epoch": epoch}
            norms: dict[str, float] = {}
            for position, batch in enumerate(islice(coming, len(batches))):
                loss, seen = shared.forward(partial(look, cell, model.losses, batch.to(accelerator.device)))
                note_losses(line, seen.values, loss, step, share=1 / len(batches))
                if position == 0:
                    note_floors(line, seen.values, floors(seen.output, seen.labels, cell.objective))
                    if step % LOOK_EVERY == 0:
                        line |= geometry(seen.output.sentences[:, 0])
                    if step % LOOK_EVERY == 0 or audit.silent_terms:
                        gradients, of_parameters = shared.of_terms(seen.encoded, seen.output)
                        norms = audit.look_at_terms(seen.values, gradients)
                        norms = norms if of_parameters and step % LOOK_EVERY == 0 else {}
                shared.backward(loss / len(batches), last=position == len(batches) - 1)
                seen.encoded.finish()
            audit.saw_gradients()
            line |= {f"gradient_norm.{name}": norm for name, norm in norms.items()}
            line["gradient_norm"], counts = shared.step()
            line |= {f"lr.{group['name']}": group["lr"] for group in optimizer.param_groups if group.get("shown")}
            model.after_step((step + 1) / total)
            if counts:
                scheduler.step()
            audit.saw_step()
            line |= throughput(tokens, batches, time.perf_counter() - began, accelerator.device)
            log.write(json.dumps(line) + "\n")
            log.flush()
            if (step + 1) % checkpoint_every == 0 and step + 1 < total:
                save_checkpoint(folder, step + 1, shared, scheduler, accelerator)
    for name, parameter in audit.parameters.items():  # the last step has no loss after it
        if not bool((part := shared.held(parameter)).isfinite().all()):
            raise Diverged(total - 1, name, float(part.sum()))
    audit.verdict()
    model.below = frozen.below
    save_weights(shared, cell, folder, first_process)
    return shared


@dataclass
class Seen:
    """What one batch gave: the encoder's output for this process's texts, that of all processes, and the terms."""

    encoded: gradcache.Direct | gradcache.Replayed
    output: Output
    labels: Tensor
    values: dict[str, Tensor]


def look(cell: Cell, losses: nn.ModuleDict, batch: Batch, encode: Callable[[Batch], Output]) -> tuple[Tensor, Seen]:
    """The loss of a batch, of which this process encodes its share."""
    encoded = gradcache.encode(encode, batch, cell.training.micro_batch)
    output, labels = whole_batch(encoded.output, batch.labels)
    values = terms(output, labels, cell.objective, losses)
    weights = cell.objective.terms()
    loss = torch.stack([weights[name] * value for name, value in values.items()]).sum()
    return loss, Seen(encoded, output, labels, values)


def start(cell: Cell) -> Accelerator:
    """A fresh Accelerator and fresh random state, also in a process that has trained other cells before."""
    torch.set_num_threads(cell.training.threads)
    torch.use_deterministic_algorithms(True, warn_only=True)
    deterministic: Any = torch.utils.deterministic
    deterministic.fill_uninitialized_memory = False  # it costs 5 % of a step, to find faults of kernels
    AcceleratorState._reset_state(True)
    GradientState._reset_state()
    if cell.training.precision == "fp16" and not torch.cuda.is_available():
        raise UserError("precision fp16 needs a GPU, and there is none here: take bf16 or fp32")
    accelerator = sharding.begin(cell.training)
    if accelerator.num_processes != cell.training.processes:
        raise UserError(
            f"the cell trains in {cell.training.processes} processes, and {accelerator.num_processes} were started"
        )
    set_seed(cell.seed)
    return accelerator


def draw_from(seed: int, step: int, process: int) -> None:
    """Let a step's random numbers follow from where it stands, whatever was drawn before: cells of one seed see the
    same dropout in the first pass of each step, and the processes of a cell, which have other texts, another one."""
    number = int(np.random.SeedSequence([seed, process, step]).generate_state(1)[0])
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(number)


def begin(model: models.Model, cell: Cell, tokens: Tokens, device: torch.device, speed: Speed) -> None:
    """Show the training texts' embeddings by the untrained encoder to the losses that begin from them."""

    def compute() -> Tensor:
        texts = tokens.splits["train"]
        if cell.training.precision != "fp32":  # which is what the store was computed with, and this is not
            texts = replace(texts, below=None)
        parts = np.array_split(np.arange(len(texts)), math.ceil(len(texts) / 64))
        batches = [collate(texts, part, tokens.pad_id, tokens.special_ids).to(device) for part in parts]
        return torch.cat([model.predict(batch).embedding for batch in batches])

    losses: list[Any] = list(model.losses.values())
    for loss in losses:
        if hasattr(loss, "begin"):
            model.to(device)
            loss.begin(untrained_embeddings.embeddings(cell, tokens, speed, compute).to(device))


def rate(done: int, total: int, training: Training) -> float:
    """Factor on the learning rates for the step after `done` steps; never 0, so that every step trains."""
    warm = math.ceil(training.warmup * total)
    if done < warm:
        return (done + 1) / (warm + 1)
    left = (total - done) / max(1, total - warm)
    return {"constant": 1.0, "linear": left, "cosine": 0.5 * (1 - math.cos(math.pi * left))}[training.schedule]


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


def throughput(tokens: Tokens, batches: list[np.ndarray], seconds: float, device: torch.device) -> dict[str, float]:
    lengths = tokens.splits["train"].lengths
    count = sum(len(indices) for indices in batches)
    line = {
        "examples_per_second": count / seconds,
        "tokens_per_second": sum(int(lengths[indices].sum()) for indices in batches) / seconds,
    }
    if device.type == "cuda":
        line["memory_mib"] = torch.cuda.max_memory_allocated(device) / 2**20
    return line


def save_weights(shared: Shared, cell: Cell, folder: Path, first_process: bool) -> None:
    """What training changed; the rest comes from the encoder itself, but for one that began at random."""
    everything = cell.encoder.model.startswith("scratch:")
    trained = {name: p for name, p in shared.model.named_parameters() if p.requires_grad or everything}
    state = {}
    for name, parameter in trained.items():
        weights = shared.whole(parameter)
        if first_process:
            state[name] = weights.cpu().contiguous()
    if first_process:
        write_atomic(folder / "checkpoint" / "weights.safetensors", save(state))


def save_checkpoint(folder: Path, step: int, shared: Shared, scheduler: LambdaLR, accelerator: Accelerator) -> None:
    """All that the next step depends on. The first process writes it, with the random state of each."""
    trained = {name for name, p in shared.model.named_parameters() if p.requires_grad}
    follows = ("slow.", "losses.")  # the slow copy, a queue, what a batch norm has seen
    tensors = shared.model.state_dict(keep_vars=True).items()
    kept = {n: shared.whole(tensor) for n, tensor in tensors if n in trained or n.startswith(follows)}
    moments = shared.moments()
    if not accelerator.is_main_process:
        return
    state = {
        "step": step,
        "model": kept,
        "optimizer": moments,
        "scheduler": scheduler.state_dict(),
        "scaler": accelerator.scaler.state_dict() if accelerator.scaler else {},
    }
    content = io.BytesIO()
    torch.save(state, content)
    write_atomic(folder / "resume" / "state.pt", content.getvalue())


def checkpoint(folder: Path, first_process: bool) -> dict[str, Any] | None:
    """The last checkpoint of an interrupted attempt, if it is whole; the log ends where it was taken."""
    log, state = folder / "metrics.jsonl", read_checkpoint(folder)
    lines = log.read_text(encoding="utf-8").splitlines(keepends=True) if log.exists() else []
    whole = state is not None and len(lines) >= state["step"]
    step = of_all_processes(state["step"] if state is not None and whole else 0)[0]
    if first_process:
        write_atomic(log, "".join(lines[:step]))
    assert step == 0 or state is not None, "the first process found a checkpoint that this one cannot read"
    return state if step else None


def read_checkpoint(folder: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = torch.load(folder / "resume" / "state.pt", map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError):  # there is none, or not the whole of it
        return None
    return found


def resume(state: dict[str, Any] | None, shared: Shared, scheduler: LambdaLR, accelerator: Accelerator) -> int:
    """Go on as if undisturbed from the checkpoint, which the model has already; gives the first step to do."""
    if state is None:
        return 0
    shared.take_up(state["optimizer"])
    scheduler.load_state_dict(state["scheduler"])
    if accelerator.scaler:
        accelerator.scaler.load_state_dict(state["scaler"])
    return int(state["step"])
