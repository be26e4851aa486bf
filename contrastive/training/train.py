"""The training loop of one cell: tokens → model → steps → weights. Other stages read its run folder.

The results of a cell depend only on its settings and seed: initial weights from torch's generator, dropout and views
from (seed, step), the order of batches from (seed, epoch). A cell resumed from its last checkpoint ends with the same
numbers as an uninterrupted one.
"""

import json
import math
import os
import time
from collections.abc import Callable, Generator, Iterator
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
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from contrastive.config.cell import Cell, Training
from contrastive.config.experiment import Speed
from contrastive.data.splits import grades_of
from contrastive.data.tokens import Tokens
from contrastive.errors import UserError
from contrastive.models import frozen_store
from contrastive.models import model as models
from contrastive.runs import stopping
from contrastive.training import checkpoint, gradcache, sharding
from contrastive.training.gather import any_rank, gather_batch
from contrastive.training.health import (
    GradientAudit,
    compared_geometry,
    geometry,
    projected_geometry,
    watch_projections,
)
from contrastive.training.terms import compares_vectors, loss_floors, loss_terms
from contrastive.views.batches import Batch, collate, count_steps, optimizer_steps, training_batches
from contrastive.views.types import Output

CHECK_EVERY = 20  # steps between two checks of the vectors' shape and of each term's gradient (a backward pass a term)


class Diverged(ArithmeticError):
    """A loss or a weight became infinite or NaN: a result, not a fault."""

    kind = "diverged"

    def __init__(self, step: int, name: str, value: float):
        super().__init__(f"{name} became {value} at step {step}")
        self.step = step


@dataclass
class BatchLoss:
    """The result of one batch: the encoding of this process's texts, the output of all processes, and the terms."""

    encoded: Any  # gradcache.Direct; or Replayed where there is a micro_batch, which no sharding allows
    output: Output
    given: dict[str, Tensor]
    values: dict[str, Tensor]


class CellTraining:
    """The training of one cell."""

    def __init__(self, cell: Cell, folder: Path, tokens: Tokens, *, checkpoint_every: int, speed: Speed) -> None:
        self.cell, self.folder, self.tokens, self.checkpoint_every = cell, folder, tokens, checkpoint_every
        self.accelerator = start_accelerator(cell)
        self.model = models.Model(cell, tokens)
        state = checkpoint.load_checkpoint(folder, self.accelerator.is_main_process)
        if state is None:
            begin_losses(self.model, cell, tokens, self.accelerator.device, speed)
        else:
            self.model.load_state_dict(state["model"], strict=False)
        graded, self.of_pairs = cell.objective.graded(), cell.objective.view_facts().partners
        self.grades = torch.tensor(grades_of(tokens.labels, graded)) if graded else None
        self.projections = watch_projections(self.model.losses)
        self.shared = sharding.share(self.model, cell, self.accelerator)
        self.total = total = count_steps(cell, tokens)  # a closure over `self` would keep the model in memory
        self.scheduler = LambdaLR(self.shared.optimizer, lambda done: learning_rate_factor(done, total, cell.training))
        self.audit = GradientAudit(self.shared, cell.objective.term_weights())
        self.first_step = checkpoint.resume(state, self.shared, self.scheduler, self.accelerator)
        self.model.train()

    def run(self) -> None:
        """Train; write metrics.jsonl and checkpoint/weights.safetensors to the folder."""
        for _ in self.steps():
            pass
        self._finish()

    def steps(self) -> Generator[None, None, None]:
        """Train, yielding before each step."""
        device, process = self.accelerator.device, self.accelerator.process_index
        to_do = islice(enumerate(optimizer_steps(self.cell, self.tokens)), self.first_step, None)
        log_file = self.folder / "metrics.jsonl" if self.accelerator.is_main_process else os.devnull
        upcoming = training_batches(self.cell, self.tokens, self.first_step, process, device)
        with open(log_file, "a", encoding="utf-8") as log, closing(upcoming):
            for step, (epoch, batches) in to_do:
                yield
                self._stop_if_revoked(step)
                began = time.perf_counter()
                line: dict[str, Any] = {"step": step, "epoch": epoch}
                line |= self._train_step(step, islice(upcoming, len(batches)), len(batches))
                line |= throughput(self.tokens, batches, time.perf_counter() - began, device)
                log.write(json.dumps(line) + "\n")
                log.flush()
                if (step + 1) % self.checkpoint_every == 0 and step + 1 < self.total:
                    self._save_checkpoint(step + 1)

    def _train_step(self, step: int, batches: Iterator[Batch], count: int) -> dict[str, Any]:
        """Train one optimizer step on `count` batches; return its line of the log."""
        seed_step(self.cell.seed, step, self.accelerator.process_index)
        line: dict[str, Any] = {}
        for position, batch in enumerate(batches):
            on_device = batch.to(self.accelerator.device)
            given = self._known(on_device)
            compute = partial(batch_loss, self.cell, self.model.losses, on_device, given)
            loss, result = self.shared.forward(compute)
            log_losses(line, result.values, loss, step, share=1 / count)
            if position == 0:
                line |= self._detailed_line(step, result)
            self.shared.backward(loss / count, last=position == count - 1)
            result.encoded.finish()
        self.audit.saw_gradients()
        line["gradient_norm"], counts = self.shared.step()
        groups = self.shared.optimizer.param_groups
        line |= {f"lr.{group['name']}": group["lr"] for group in groups if group.get("shown")}
        self.model.after_step((step + 1) / self.total)
        if counts:
            self.scheduler.step()
        self.audit.saw_step()
        return line

    def _known(self, batch: Batch) -> dict[str, Tensor]:
        """Return what a loss may read of the texts besides their vectors."""
        given = {"labels": batch.labels}
        if self.grades is not None:
            given["grades"] = self.grades.to(batch.labels.device)[batch.labels]
        if batch.guide is not None:
            others = batch.partners if self.of_pairs else (batch,)
            given["guide"] = torch.stack([it.guide for it in (batch, *others) if it.guide is not None], 1)
        return given

    def _detailed_line(self, step: int, result: BatchLoss) -> dict[str, float]:
        """Return each term's value minus its smallest possible value; every CHECK_EVERY steps and at the end also the
        geometry of the vectors and each term's gradient norm."""
        floors = loss_floors(result.output, result.given["labels"], self.cell.objective)
        line = {f"excess.{name}": float(result.values[name].detach() - floor) for name, floor in floors.items()}
        is_due = step % CHECK_EVERY == 0 or step == self.total - 1
        if is_due:
            line |= geometry(result.output.sentences[:, 0]) | projected_geometry(self.projections)
            if compares_vectors(self.cell.objective):
                line |= compared_geometry(result.output.groups)
        if is_due or self.audit.silent_terms:
            gradients, are_parameter_gradients = self.shared.term_gradients(result.encoded, result.output)
            norms = self.audit.look_at_terms(result.values, gradients)
            if is_due and are_parameter_gradients:
                line |= {f"gradient_norm.{name}": norm for name, norm in norms.items()}
        return line

    def _stop_if_revoked(self, step: int) -> None:
        if any_rank([stopping.stop_requested()])[0]:
            self._save_checkpoint(step)
            self.accelerator.wait_for_everyone()
            raise stopping.Stopped

    def _save_checkpoint(self, step: int) -> None:
        checkpoint.save_checkpoint(self.folder, step, self.shared, self.scheduler, self.accelerator)

    def _finish(self) -> None:
        for name, parameter in self.audit.parameters.items():  # no later loss would show a divergence in the last step
            if not bool((part := self.shared.local_part(parameter)).isfinite().all()):
                raise Diverged(self.total - 1, name, float(part.sum()))
        self.audit.raise_if_untrained()
        checkpoint.save_weights(self.shared, self.cell, self.folder, self.accelerator.is_main_process)


def batch_loss(
    cell: Cell, losses: nn.ModuleDict, batch: Batch, given: dict[str, Tensor], encode: Callable[[Batch], Output]
) -> tuple[Tensor, BatchLoss]:
    """Compute the loss of a batch; this process encodes only its share of it."""
    encoded = gradcache.encode_in_parts(encode, batch, cell.training.micro_batch)
    output, given = gather_batch(encoded.output, given)
    values = loss_terms(output, given, cell.objective, losses)
    weights = cell.objective.term_weights()
    loss = torch.stack([weights[name] * value for name, value in values.items()]).sum()
    return loss, BatchLoss(encoded, output, given, values)


def start_accelerator(cell: Cell) -> Accelerator:
    """Return a fresh Accelerator with fresh random state, also in a process that has trained other cells before."""
    torch.set_num_threads(cell.training.threads)
    # On a GPU the fast attention kernels are reproducible only where a warning does not suffice.
    torch.use_deterministic_algorithms(True, warn_only=not torch.cuda.is_available())
    deterministic: Any = torch.utils.deterministic
    deterministic.fill_uninitialized_memory = False  # costs 5 % of a step and only helps to find faulty kernels
    AcceleratorState._reset_state(True)
    GradientState._reset_state()
    if cell.training.precision == "fp16" and not torch.cuda.is_available():
        raise UserError("precision fp16 needs a GPU, but none is available: use bf16 or fp32")
    accelerator = sharding.join_processes(cell.training)
    if accelerator.num_processes != cell.training.processes:
        raise UserError(
            f"the cell trains in {cell.training.processes} processes, but {accelerator.num_processes} were started"
        )
    set_seed(cell.seed)
    return accelerator


def seed_step(seed: int, step: int, process: int) -> None:
    """Seed a step's random numbers from (seed, process, step), whatever was drawn before.

    Cells of one seed have the same dropout in the first pass of a step; the processes of a cell have different dropout.
    """
    number = int(np.random.SeedSequence([seed, process, step]).generate_state(1)[0])
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(number)


def begin_losses(model: models.Model, cell: Cell, tokens: Tokens, device: torch.device, speed: Speed) -> None:
    """Initialise the losses that start from the untrained encoder's embeddings of the training texts."""

    def compute() -> Tensor:
        texts = tokens.splits["train"]
        if cell.training.precision != "fp32":  # the stored outputs were computed in fp32
            texts = replace(texts, frozen_outputs=None)
        parts = np.array_split(np.arange(len(texts)), math.ceil(len(texts) / 64))
        batches = [collate(texts, part, tokens.pad_id, tokens.special_ids).to(device) for part in parts]
        return torch.cat([model.predict(batch).embedding for batch in batches])

    losses: list[Any] = list(model.losses.values())
    for loss in losses:
        if hasattr(loss, "begin"):
            model.to(device)
            loss.begin(frozen_store.untrained_embeddings(cell, tokens, speed, compute).to(device))


def learning_rate_factor(done: int, total: int, training: Training) -> float:
    """Return the factor on the learning rates after `done` steps; never 0, so that every step trains."""
    warm = math.ceil(training.warmup * total)
    if done < warm:
        return (done + 1) / (warm + 1)
    left = (total - done) / max(1, total - warm)
    return {"constant": 1.0, "linear": left, "cosine": 0.5 * (1 - math.cos(math.pi * left))}[training.schedule]


def log_losses(
    line: dict[str, Any], values: dict[str, torch.Tensor], loss: torch.Tensor, step: int, share: float
) -> None:
    for name, value in ({f"loss.{name}": value for name, value in values.items()} | {"loss": loss}).items():
        number = float(value.detach())
        if not math.isfinite(number):
            raise Diverged(step, name, number)
        line[name] = line.get(name, 0.0) + share * number


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
