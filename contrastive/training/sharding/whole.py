"""Each process holds everything: one process alone, or several that average their gradients (DDP)."""

import math
from typing import Any

from accelerate import Accelerator
from torch import Tensor, nn

from contrastive.config.cell import Cell
from contrastive.models.model import Model
from contrastive.training import gather, gradcache
from contrastive.training.sharding.step import Gradients, Look, Work, adamw, optimizer_parameters
from contrastive.views.types import Output


class DataParallel:
    """The whole model in every process."""

    def __init__(self, model: Model, cell: Cell, accelerator: Accelerator):
        self.model, self.accelerator, self.clip = model.to(accelerator.device), accelerator, cell.training.clip
        self.optimizer = adamw(model, cell)
        self.listed, self.device = optimizer_parameters(self.optimizer), accelerator.device
        self.count = sum(parameter.numel() for parameter in self.listed)
        gather.exclude_from_ddp(model, "losses.")
        self.prepared, self.stepper = accelerator.prepare(model, self.optimizer)

    def forward(self, work: Work) -> tuple[Tensor, Any]:
        """The loss of a batch, and whatever else the work saw, where the weights can be read."""
        with self.accelerator.autocast():
            return work(self.prepared)

    def backward(self, loss: Tensor, last: bool) -> None:
        """Of one batch of a step; `last` says that the step has no more of them."""
        self.accelerator.backward(loss)

    def step(self) -> tuple[float, bool]:
        """Clip and train: the norm of the whole gradient, and whether the step counts (fp16 skips one at times)."""
        norm = self.accelerator.clip_grad_norm_(self.listed, self.clip or math.inf)
        self.stepper.step()
        self.stepper.zero_grad(set_to_none=True)
        return float(norm), not self.stepper.step_was_skipped

    def of_terms(self, encoded: gradcache.Direct | gradcache.Replayed, output: Output) -> tuple[Gradients, bool]:
        """How to ask for the gradient of one term alone, and whether that is the parameters' (else the vectors')."""
        return gather.average_gradients(encoded.gradients), True

    def read(self, look: Look) -> Any:
        """What is seen of the model where its weights are whole."""
        return look(self.model)

    def held(self, parameter: nn.Parameter) -> Tensor:
        """What this process holds of it."""
        return parameter.detach()

    def gradient(self, parameter: nn.Parameter) -> Tensor | None:
        """Between backward and step: its gradient, or a part of it."""
        return parameter.grad

    def whole(self, tensor: Tensor) -> Tensor:
        return tensor.detach()

    def optimizer_state(self) -> Any:
        """What AdamW keeps, for a checkpoint; of use in the first process only."""
        return self.optimizer.state_dict()

    def load_optimizer_state(self, moments: Any) -> None:
        self.optimizer.load_state_dict(moments)
