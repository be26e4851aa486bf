"""Choose how processes share the training state: each has all of it (DDP), or a part (DeepSpeed's ZeRO, FSDP).

The recipe is the same in each: AdamW with its groups, clipping, precision, and the gradient of the whole batch. They
differ in which process holds which part of weights, gradients and moments, so all take part in reading a whole one.
"""

import math
from typing import Any, TypeAlias

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from contrastive.config.cell import Cell, Training
from contrastive.errors import UserError
from contrastive.grid import deepspeed_file
from contrastive.models.model import Model
from contrastive.training import gather, gradcache
from contrastive.training.sharding.fsdp import Fsdp
from contrastive.training.sharding.step import Gradients, ModelReader, Work, adamw, optimizer_parameters
from contrastive.training.sharding.zero import Zero, with_deepspeed
from contrastive.views.types import Output


class DataParallel:
    """The whole model in each process; several average gradients (DDP). `Zero` and `Fsdp` have the same methods."""

    def __init__(self, model: Model, cell: Cell, accelerator: Accelerator):
        self.model, self.accelerator, self.clip = model.to(accelerator.device), accelerator, cell.training.clip
        # a fused step would hide from Accelerate that fp16 has skipped it
        fused = accelerator.device.type == "cuda" and cell.training.precision != "fp16"
        self.optimizer = adamw(model, cell, fused=fused)
        self.listed, self.device = optimizer_parameters(self.optimizer), accelerator.device
        self.count = sum(parameter.numel() for parameter in self.listed)
        gather.exclude_from_ddp(model, "losses.")
        self.prepared, self.stepper = accelerator.prepare(model, self.optimizer)

    def forward(self, work: Work) -> tuple[Tensor, Any]:
        """Run `work` where the weights can be read; return the loss of a batch and the work's other result."""
        with self.accelerator.autocast():
            return work(self.prepared)

    def backward(self, loss: Tensor, last: bool) -> None:
        """Backpropagate the loss of one batch; `last` marks the last batch of a step."""
        self.accelerator.backward(loss)

    def step(self) -> tuple[float, bool]:
        """Clip and train. Return the norm of the whole gradient, and whether the step counts (fp16 may skip one)."""
        norm = self.accelerator.clip_grad_norm_(self.listed, self.clip or math.inf)
        self.stepper.step()
        self.stepper.zero_grad(set_to_none=True)
        return float(norm), not self.stepper.step_was_skipped

    def term_gradients(self, encoded: gradcache.Direct | gradcache.Replayed, output: Output) -> tuple[Gradients, bool]:
        """Return a function for one term's gradient, and whether it is by parameters (else by vectors)."""
        return gather.average_gradients(encoded.gradients), True

    def read(self, reader: ModelReader) -> Any:
        """Return what `reader` reads from the model where its weights are whole."""
        return reader(self.model)

    def local_part(self, parameter: nn.Parameter) -> Tensor:
        """Return the part of a parameter that this process holds."""
        return parameter.detach()

    def gradient(self, parameter: nn.Parameter) -> Tensor | None:
        """Return a parameter's gradient, or this process's part of it; valid between backward and step."""
        return parameter.grad

    def whole(self, tensor: Tensor) -> Tensor:
        return tensor.detach()

    def optimizer_state(self) -> Any:
        """Return AdamW's state for a checkpoint; only the first process needs the result."""
        return self.optimizer.state_dict()

    def load_optimizer_state(self, moments: Any) -> None:
        self.optimizer.load_state_dict(moments)


Shared: TypeAlias = DataParallel | Zero | Fsdp


def share(model: Model, cell: Cell, accelerator: Accelerator) -> Shared:
    """Put the model and its optimizer on the device, sharded as the cell chooses. Raise UserError if it cannot be."""
    if cell.training.sharding is None:
        return DataParallel(model, cell, accelerator)
    if reason := deepspeed_file.sharding_conflict(cell.objective, cell.training):
        raise UserError(reason)
    return (Zero if deepspeed_file.uses_deepspeed(cell.training) else Fsdp)(model, cell, accelerator)


def join_processes(training: Training) -> Accelerator:
    """Return a fresh Accelerator that has joined the other processes of the cell."""
    on_gpu = torch.cuda.is_available()
    if training.sharding is not None:
        gather.ensure_process_group()
    if deepspeed_file.uses_deepspeed(training):
        return with_deepspeed(training, on_gpu)
    return Accelerator(mixed_precision="no" if training.precision == "fp32" else training.precision, cpu=not on_gpu)
