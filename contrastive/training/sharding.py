"""Choose how processes share the training state: each has all of it (DDP), or a part (DeepSpeed's ZeRO, FSDP).

The recipe is the same in each: AdamW with its groups, clipping, precision, and the gradient of the whole batch. They
differ in which process holds which part of weights, gradients and moments, so all take part in reading a whole one.
"""

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from contrastive.config.cell import Cell, Training
from contrastive.errors import UserError
from contrastive.grid import deepspeed_file
from contrastive.models import tuning
from contrastive.models.model import Model
from contrastive.training import gather, gradcache
from contrastive.training.gather import Gradients
from contrastive.views.batches import Batch
from contrastive.views.types import Output

# Takes the function that encodes a batch; returns the loss and a result.
Work: TypeAlias = Callable[[Callable[[Batch], Any]], tuple[Tensor, Any]]
ModelReader: TypeAlias = Callable[[Model], Any]


class Shared(ABC):
    """A model and its optimizer, of which this process holds all or a part."""

    def __init__(self, model: Model, cell: Cell, accelerator: Accelerator, *, fused: bool = False):
        self.model, self.accelerator, self.device = model, accelerator, accelerator.device
        self.clip = cell.training.clip or math.inf
        groups = tuning.optimizer_groups(model, cell.training, cell.encoder.tune)
        self.optimizer = torch.optim.AdamW(groups, fused=fused)
        self.listed = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        self.count = sum(parameter.numel() for parameter in self.listed)

    @abstractmethod
    def forward(self, work: Work) -> tuple[Tensor, Any]:
        """Run `work` where the weights can be read; return the loss of a batch and the work's other result."""

    @abstractmethod
    def backward(self, loss: Tensor, last: bool) -> None:
        """Backpropagate the loss of one batch; `last` marks the last batch of a step."""

    @abstractmethod
    def step(self) -> tuple[float, bool]:
        """Clip and train. Return the norm of the whole gradient, and whether the step counts (fp16 may skip one)."""

    @abstractmethod
    def term_gradients(self, encoded: gradcache.Direct | gradcache.Replayed, output: Output) -> tuple[Gradients, bool]:
        """Return a function for one term's gradient, and whether it is by parameters (else by vectors)."""

    def read(self, reader: ModelReader) -> Any:
        """Return what `reader` reads from the model where its weights are whole."""
        return reader(self.model)

    def local_part(self, parameter: Any) -> Tensor:
        """Return the part of a parameter that this process holds."""
        return parameter.detach()

    def gradient(self, parameter: Any) -> Tensor | None:
        """Return a parameter's gradient, or this process's part of it; valid between backward and step."""
        return parameter.grad

    def whole(self, tensor: Any) -> Tensor:
        return tensor.detach()

    def optimizer_state(self) -> Any:
        """Return AdamW's state for a checkpoint; only the first process needs the result."""
        return self.optimizer.state_dict()

    def load_optimizer_state(self, moments: Any) -> None:
        """Load what `optimizer_state` returned in the first process."""
        self.optimizer.load_state_dict(moments)


class DataParallel(Shared):
    """The whole model in each process; several average gradients (DDP)."""

    def __init__(self, model: Model, cell: Cell, accelerator: Accelerator):
        # a fused step would hide from Accelerate that fp16 has skipped it
        fused = accelerator.device.type == "cuda" and cell.training.precision != "fp16"
        super().__init__(model.to(accelerator.device), cell, accelerator, fused=fused)
        gather.exclude_from_ddp(model, "losses.")
        self.prepared, self.stepper = accelerator.prepare(model, self.optimizer)

    def forward(self, work: Work) -> tuple[Tensor, Any]:
        with self.accelerator.autocast():
            return work(self.prepared)

    def backward(self, loss: Tensor, last: bool) -> None:
        self.accelerator.backward(loss)

    def step(self) -> tuple[float, bool]:
        norm = self.accelerator.clip_grad_norm_(self.listed, self.clip)
        self.stepper.step()
        self.stepper.zero_grad(set_to_none=True)
        return float(norm), not self.stepper.step_was_skipped

    def term_gradients(self, encoded: gradcache.Direct | gradcache.Replayed, output: Output) -> tuple[Gradients, bool]:
        return gather.average_gradients(encoded.gradients), True


class StepModule(nn.Module):
    """The model as sharding sees it: all reads of weights happen inside one forward call, which returns the loss."""

    def __init__(self, model: Model):
        super().__init__()
        self.model = model
        self.result: Any = None

    def forward(self, work: Work) -> Tensor:
        loss, self.result = work(self.model)
        return loss


def vector_gradients(output: Output) -> Gradients:
    """Return gradients of a term by the vectors and logits it reads: enough to detect a dead term."""
    reached = [tensor for tensor in gradcache.output_tensors(output) if tensor.requires_grad]
    return lambda value, _: torch.autograd.grad(value, reached, retain_graph=True, allow_unused=True)


class Split(Shared):
    """A model whose state is split; each read of weights is part of a forward call of `step_module`."""

    step_module: StepModule

    def read(self, reader: ModelReader) -> Any:
        def work(encode: Callable[[Batch], Any]) -> tuple[Tensor, Any]:
            with torch.autocast(next(self.model.parameters()).device.type, enabled=False):
                return torch.zeros(()), reader(self.model)

        with torch.no_grad():
            return self.forward(work)[1]


class Fsdp(Split):
    """PyTorch's FSDP splits weights, gradients and moments; a block is whole only while it computes."""

    def __init__(self, model: Model, cell: Cell, accelerator: Accelerator):
        self.step_module = StepModule(model)
        blocks = [module for name, module in model.named_modules() if tuning.is_block_name(name)]
        # attention is computed again after its block's forward pass, so the weights stay until the backward pass
        reshard = not cell.objective.view_facts().attention
        gather.shard_parameters(self.step_module, blocks, accelerator.device, reshard)
        super().__init__(model, cell, accelerator)

    def forward(self, work: Work) -> tuple[Tensor, Any]:
        with self.accelerator.autocast():
            loss = self.step_module(work)
        return loss, self.step_module.result

    def backward(self, loss: Tensor, last: bool) -> None:
        loss.backward()

    def step(self) -> tuple[float, bool]:
        norm: Any = torch.nn.utils.clip_grad_norm_(self.listed, self.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return float(norm.full_tensor()), True

    def term_gradients(self, encoded: gradcache.Direct | gradcache.Replayed, output: Output) -> tuple[Gradients, bool]:
        return vector_gradients(output), False

    def local_part(self, parameter: Any) -> Tensor:
        return parameter.detach().to_local()

    def gradient(self, parameter: Any) -> Tensor | None:
        return None if parameter.grad is None else parameter.grad.to_local()

    def whole(self, tensor: Any) -> Tensor:
        return tensor.detach().full_tensor() if hasattr(tensor, "full_tensor") else tensor.detach()

    def optimizer_state(self) -> Any:
        state = self.optimizer.state_dict()
        local_states = {
            number: {name: value.to_local() if hasattr(value, "to_local") else value for name, value in of.items()}
            for number, of in state["state"].items()
        }
        return gather.gather_to_first(state | {"state": local_states})

    def load_optimizer_state(self, moments: Any) -> None:
        """Load this process's entry of `moments`, one optimizer state per process, as shards of its parameters."""
        self.optimizer.load_state_dict(moments[gather.rank()])
        states: dict[Any, dict[str, Any]] = self.optimizer.state
        for parameter, state in states.items():
            state |= {name: gather.local_shard(parameter, value) for name, value in state.items() if name != "step"}


class Zero(Split):
    """DeepSpeed's ZeRO. Stage 1 splits what AdamW keeps, 2 also the gradients, 3 also the weights."""

    def __init__(self, model: Model, cell: Cell, accelerator: Accelerator):
        super().__init__(model, cell, accelerator)
        self.step_module = StepModule(model)
        self.splits_weights = deepspeed_file.splits_weights(cell.training)
        if self.splits_weights:
            split_weights(self.step_module, accelerator)
        self.engine, _ = accelerator.prepare(self.step_module, self.optimizer)

    def forward(self, work: Work) -> tuple[Tensor, Any]:
        loss = self.engine(work)
        return loss, self.step_module.result

    def backward(self, loss: Tensor, last: bool) -> None:
        self.engine.set_gradient_accumulation_boundary(last)
        self.engine.backward(loss)

    def step(self) -> tuple[float, bool]:
        self.engine.step()
        return float(self.engine.get_global_grad_norm()), True

    def term_gradients(self, encoded: gradcache.Direct | gradcache.Replayed, output: Output) -> tuple[Gradients, bool]:
        if not self.splits_weights:
            return gather.average_gradients(encoded.gradients), True
        gradients = vector_gradients(output)

        def counted_gradients(value: Tensor, parameters: list[nn.Parameter]) -> Any:
            with backward_counts_kept(self.step_module):
                return gradients(value, parameters)

        return counted_gradients, False

    def local_part(self, parameter: nn.Parameter) -> Tensor:
        part: Tensor = getattr(parameter, "ds_tensor", parameter)
        return part.detach()

    def gradient(self, parameter: nn.Parameter) -> Tensor | None:
        from deepspeed.utils import safe_get_full_grad, safe_get_local_grad

        return safe_get_local_grad(parameter) if self.splits_weights else safe_get_full_grad(parameter)

    def whole(self, tensor: Tensor) -> Tensor:
        from deepspeed.runtime.zero import GatheredParameters

        with GatheredParameters(tensor, enabled=hasattr(tensor, "ds_id")):
            return tensor.detach().clone()

    def optimizer_state(self) -> Any:
        with self._parameters_listed():
            return gather.gather_to_first(self.optimizer.state_dict())

    def load_optimizer_state(self, moments: Any) -> None:
        with self._parameters_listed():
            self.optimizer.load_state_dict(moments[gather.rank()])

    @contextmanager
    def _parameters_listed(self) -> Iterator[None]:
        """List the parameters in AdamW, as state_dict needs; stage 3 lists them during a step only."""
        if not self.splits_weights:
            yield
            return
        self.engine.optimizer._set_fp32_optimizer_param_groups()
        yield
        self.engine.optimizer._clear_fp32_optimizer_param_groups()


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


def with_deepspeed(training: Training, on_gpu: bool) -> Accelerator:
    import deepspeed
    from accelerate.utils import DeepSpeedPlugin, InitProcessGroupKwargs
    from transformers.integrations import unset_hf_deepspeed_config

    if not on_gpu:  # it compiles for 20 s at first use and leaves files in /dev/shm; gloo does the same
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    os.environ.setdefault("LOCAL_RANK", "0")  # DeepSpeed requires it, and only launchers set it
    deepspeed.init_distributed(gather.backend(), auto_mpi_discovery=False)
    assert training.sharding is not None
    recipe: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": 1,  # unused: the loss is already a mean over the whole batch
        "gradient_accumulation_steps": 1,
        "gradient_clipping": training.clip,
        "zero_force_ds_cpu_optimizer": False,  # keep torch's AdamW even if moments are offloaded to the CPU
    }
    if training.precision != "fp32":
        recipe["torch_autocast"] = {"enabled": True, "dtype": "bfloat16", "lower_precision_safe_modules": []}
    settings = {"steps_per_print": 2**31} | deepspeed_file.file_settings(training.sharding) | recipe
    accelerator = Accelerator(
        mixed_precision="no",
        deepspeed_plugin=DeepSpeedPlugin(hf_ds_config=settings, zero3_init_flag=False),
        kwargs_handlers=[InitProcessGroupKwargs(backend=gather.backend())],  # otherwise it counts one process on a CPU
    )
    unset_hf_deepspeed_config()  # else transformers splits the encoder on loading, before its groups are known
    return accelerator


def split_weights(module: nn.Module, accelerator: Accelerator) -> None:
    """Split weights one by one while moving them to the device, which could not hold all of them."""
    from deepspeed.runtime.zero import Init

    Init(module=module, config_dict_or_path=accelerator.state.deepspeed_plugin.deepspeed_config)
    for buffer in module.buffers():
        buffer.data = buffer.data.to(accelerator.device)


@contextmanager
def backward_counts_kept(module: nn.Module) -> Iterator[None]:
    """Restore DeepSpeed's counters: stage 3 expects one backward pass per forward pass, and a check adds another."""
    counters = ("applied_pre_backward_ref_cnt", "ds_grads_remaining")
    before = [
        (part, name, getattr(part, name)) for part in module.modules() for name in counters if hasattr(part, name)
    ]
    yield
    for part, name, count in before:
        setattr(part, name, count)
