"""Parts that all ways of sharding share: the module around a step's forward pass, AdamW, and gradients of one term."""

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from contrastive.config.cell import Cell
from contrastive.models import tuning
from contrastive.models.model import Model
from contrastive.training import gradcache
from contrastive.views.batches import Batch
from contrastive.views.types import Output

Gradients: TypeAlias = Callable[[Tensor, list[nn.Parameter]], Any]
# Takes the function that encodes a batch; returns the loss and a result.
Work: TypeAlias = Callable[[Callable[[Batch], Any]], tuple[Tensor, Any]]
ModelReader: TypeAlias = Callable[[Model], Any]


class StepModule(nn.Module):
    """The model as sharding sees it: all reads of weights happen inside one forward call, which returns the loss."""

    def __init__(self, model: Model):
        super().__init__()
        self.model = model
        self.result: Any = None

    def forward(self, work: Work) -> Tensor:
        loss, self.result = work(self.model)
        return loss


def reading_work(model: Model, reader: ModelReader) -> Work:
    """Return work that only reads the model, with a zero loss."""

    def work(encode: Callable[[Batch], Any]) -> tuple[Tensor, Any]:
        with torch.autocast(next(model.parameters()).device.type, enabled=False):
            return torch.zeros(()), reader(model)

    return work


def adamw(model: Model, cell: Cell, *, fused: bool = False) -> torch.optim.AdamW:
    return torch.optim.AdamW(tuning.optimizer_groups(model, cell.training, cell.encoder.tune), fused=fused)


def optimizer_parameters(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def vector_gradients(output: Output) -> Gradients:
    """Return gradients of a term by the vectors and logits it reads: enough to detect a dead term."""
    reached = [tensor for tensor in gradcache.output_tensors(output) if tensor.requires_grad]
    return lambda value, _: torch.autograd.grad(value, reached, retain_graph=True, allow_unused=True)
