"""Fsdp: PyTorch's FSDP splits weights, gradients and moments; a block is whole only while it computes."""

import math
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor

from contrastive.config.cell import Cell
from contrastive.models import tuning
from contrastive.models.model import Model
from contrastive.training import gather, gradcache
from contrastive.training.sharding.step import (
    Gradients,
    ModelReader,
    StepModule,
    Work,
    adamw,
    optimizer_parameters,
    reading_work,
    vector_gradients,
)
from contrastive.views.types import Output


class Fsdp:
    """A model whose training state FSDP splits."""

    def __init__(self, model: Model, cell: Cell, accelerator: Accelerator):
        self.model, self.step_module, self.accelerator = model, StepModule(model), accelerator
        blocks = [module for name, module in model.named_modules() if tuning.is_block_name(name)]
        # attention is computed again after its block's forward pass, so the weights stay until the backward pass
        reshard = not cell.objective.view_facts().attention
        gather.shard_parameters(self.step_module, blocks, accelerator.device, reshard)
        self.optimizer, self.clip = adamw(model, cell), cell.training.clip
        self.listed, self.device = optimizer_parameters(self.optimizer), accelerator.device
        self.count = sum(parameter.numel() for parameter in self.listed)

    def forward(self, work: Work) -> tuple[Tensor, Any]:
        """Return the loss to differentiate, and what else `work` returned."""
        with self.accelerator.autocast():
            loss = self.step_module(work)
        return loss, self.step_module.result

    def backward(self, loss: Tensor, last: bool) -> None:
        loss.backward()

    def step(self) -> tuple[float, bool]:
        norm: Any = torch.nn.utils.clip_grad_norm_(self.listed, self.clip or math.inf)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return float(norm.full_tensor()), True

    def term_gradients(self, encoded: gradcache.Direct, output: Output) -> tuple[Gradients, bool]:
        return vector_gradients(output), False

    def read(self, reader: ModelReader) -> Any:
        with torch.no_grad():
            self.step_module(reading_work(self.model, reader))
        return self.step_module.result

    def local_part(self, parameter: Any) -> Tensor:
        return parameter.detach().to_local()

    def gradient(self, parameter: Any) -> Tensor | None:
        return None if parameter.grad is None else parameter.grad.to_local()

    def whole(self, tensor: Any) -> Tensor:
        return tensor.detach().full_tensor() if hasattr(tensor, "full_tensor") else tensor.detach()

    def optimizer_state(self) -> Any:
        state = self.optimizer.state_dict()
        own = {i: {name: to_local_tensor(value) for name, value in of.items()} for i, of in state["state"].items()}
        return gather.gather_to_first(state | {"state": own})

    def load_optimizer_state(self, moments: Any) -> None:
        """Load this process's entry of `moments`, one optimizer state per process, as shards of its parameters."""
        self.optimizer.load_state_dict(moments[gather.rank()])
        states: dict[Any, dict[str, Any]] = self.optimizer.state
        for parameter, state in states.items():
            state |= {name: gather.local_shard(parameter, value) for name, value in state.items() if name != "step"}


def to_local_tensor(value: Any) -> Any:
    return value.to_local() if hasattr(value, "to_local") else value
