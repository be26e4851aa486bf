"""Choose how processes share the training state: each has all of it (DDP), or a part (DeepSpeed's ZeRO, FSDP).

The recipe is the same in each: AdamW with its groups, clipping, precision, and the gradient of the whole batch. They
differ in which process holds which part of weights, gradients and moments, so all take part in reading a whole one.
"""

from typing import TypeAlias

import torch
from accelerate import Accelerator

from contrastive.config.cell import Cell, Training
from contrastive.errors import UserError
from contrastive.grid import deepspeed_file
from contrastive.models.model import Model
from contrastive.training import gather
from contrastive.training.sharding.fsdp import Fsdp
from contrastive.training.sharding.whole import DataParallel
from contrastive.training.sharding.zero import Zero, with_deepspeed

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
