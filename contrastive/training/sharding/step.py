"""A training step as each way of sharing sees it: the work of a forward pass, AdamW, and gradients of one term."""

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
Work: TypeAlias = Callable[[Callable[[Batch], Any]], tuple[Tensor, Any]]  # encodes with what it is given; loss first
Look: TypeAlias = Callable[[Model], Any]


class StepModule(nn.Module):
    """The model as a sharder sees it: whatever of a step reads weights happens inside of a call; a loss comes out."""

    def __init__(self, model: Model):
        super().__init__()
        self.model = model
        self.seen: Any = None

    def forward(self, work: Work) -> Tensor:
        loss, self.seen = work(self.model)
        return loss


def reading_work(model: Model, look: Look) -> Work:
    """The work that only looks at the model, and has no loss."""

    def work(encode: Callable[[Batch], Any]) -> tuple[Tensor, Any]:
        with torch.autocast(next(model.parameters()).device.type, enabled=False):
            return torch.zeros(()), look(model)

    return work


def adamw(model: Model, cell: Cell) -> torch.optim.AdamW:
    return torch.optim.AdamW(tuning.optimizer_groups(model, cell.training, cell.encoder.tune))


def optimizer_parameters(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def vector_gradients(output: Output) -> Gradients:
    """Of a term, by the vectors and logits that it reads, where weights cannot be asked for: it shows a dead term."""
    reached = [tensor for tensor in gradcache.output_tensors(output) if tensor.requires_grad]
    return lambda value, _: torch.autograd.grad(value, reached, retain_graph=True, allow_unused=True)
