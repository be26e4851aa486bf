"""How processes share the training state: each has all of it (DDP), or a part of it (DeepSpeed's ZeRO, FSDP).

The recipe is the same in each: AdamW with its groups, clipping, precision, and the gradient of the whole batch. What
differs is who holds which part of weights, gradients and moments, so that all must take part in reading a whole one.
"""

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from contrastive.config.cell import Cell, Training
from contrastive.config.speed import USUAL, Speed
from contrastive.errors import UserError
from contrastive.models import tuning
from contrastive.models.model import Model
from contrastive.sources import deepspeed_file
from contrastive.training import gather, gradcache
from contrastive.views.batches import Batch
from contrastive.views.types import Output

Gradients: TypeAlias = Callable[[Tensor, list[nn.Parameter]], Any]
Work: TypeAlias = Callable[[Callable[[Batch], Any]], tuple[Tensor, Any]]  # encodes with what it is given; loss first


class Whole:
    """Every process holds everything: one process alone, or several that average their gradients (DDP)."""

    def __init__(self, model: Model, cell: Cell, accelerator: Accelerator, speed: Speed = USUAL):
        self.model, self.accelerator, self.clip = model.to(accelerator.device), accelerator, cell.training.clip
        self.optimizer = adamw(model, cell, fused=speed.kernels == "fast")
        self.listed, self.device = listed(self.optimizer), accelerator.device
        self.count = sum(parameter.numel() for parameter in self.listed)
        gather.leave_out(model, "losses.")
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
        return gather.averaged(encoded.gradients), True

    def read(self, look: Callable[[Model], Any]) -> Any:
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

    def moments(self) -> Any:
        """What AdamW keeps, for a checkpoint; of use in the first process only."""
        return self.optimizer.state_dict()

    def take_up(self, moments: Any) -> None:
        self.optimizer.load_state_dict(moments)


class Zero:
    """DeepSpeed: stage 1 splits what AdamW keeps, 2 the gradients too, 3 the weights too."""

    def __init__(self, model: Model, cell: Cell, accelerator: Accelerator):
        self.model, self.around = model, Around(model)
        self.splits_weights = deepspeed_file.splits_weights(cell.training)
        self.optimizer = adamw(model, cell)
        self.listed, self.device = listed(self.optimizer), accelerator.device
        self.count = sum(parameter.numel() for parameter in self.listed)
        if self.splits_weights:
            bring_in_parts(self.around, accelerator)
        prepared, _ = accelerator.prepare(self.around, self.optimizer)
        self.engine = prepared

    def forward(self, work: Work) -> tuple[Tensor, Any]:
        loss = self.engine(work)
        return loss, self.around.seen

    def backward(self, loss: Tensor, last: bool) -> None:
        self.engine.set_gradient_accumulation_boundary(last)
        self.engine.backward(loss)

    def step(self) -> tuple[float, bool]:
        self.engine.step()
        return float(self.engine.get_global_grad_norm()), True

    def of_terms(self, encoded: gradcache.Direct, output: Output) -> tuple[Gradients, bool]:
        if not self.splits_weights:
            return gather.averaged(encoded.gradients), True
        found = by_vectors(output)

        def given(value: Tensor, parameters: list[nn.Parameter]) -> Any:
            with counted_once(self.around):
                return found(value, parameters)

        return given, False

    def read(self, look: Callable[[Model], Any]) -> Any:
        with torch.no_grad():
            self.engine(reading(self.model, look))
        return self.around.seen

    def held(self, parameter: nn.Parameter) -> Tensor:
        part: Tensor = getattr(parameter, "ds_tensor", parameter)
        return part.detach()

    def gradient(self, parameter: nn.Parameter) -> Tensor | None:
        from deepspeed.utils import safe_get_full_grad, safe_get_local_grad

        return safe_get_local_grad(parameter) if self.splits_weights else safe_get_full_grad(parameter)

    def whole(self, tensor: Tensor) -> Tensor:
        from deepspeed.runtime.zero import GatheredParameters

        with GatheredParameters(tensor, enabled=hasattr(tensor, "ds_id")):
            return tensor.detach().clone()

    def moments(self) -> Any:
        with self._listed_parts():
            return gather.to_first(self.optimizer.state_dict())

    def take_up(self, moments: Any) -> None:
        with self._listed_parts():
            self.optimizer.load_state_dict(moments[gather.rank()])

    @contextmanager
    def _listed_parts(self) -> Iterator[None]:
        """Stage 3 tells AdamW what it trains during a step only, and AdamW can name only what it knows."""
        if not self.splits_weights:
            yield
            return
        self.engine.optimizer._set_fp32_optimizer_param_groups()
        yield
        self.engine.optimizer._clear_fp32_optimizer_param_groups()


class Fsdp:
    """PyTorch's FSDP: weights, gradients and moments split, each block of the encoder whole only while it computes."""

    def __init__(self, model: Model, cell: Cell, accelerator: Accelerator):
        self.model, self.around, self.accelerator = model, Around(model), accelerator
        blocks = [module for name, module in model.named_modules() if tuning.is_block(name)]
        # the token views read the weights of a block after it has computed, so they stay until its gradient
        again = cell.objective.view not in ("topk_tokens", "cluster", "layers")
        gather.split(self.around, blocks, accelerator.device, again)
        self.optimizer, self.clip = adamw(model, cell), cell.training.clip
        self.listed, self.device = listed(self.optimizer), accelerator.device
        self.count = sum(parameter.numel() for parameter in self.listed)

    def forward(self, work: Work) -> tuple[Tensor, Any]:
        with self.accelerator.autocast():
            loss = self.around(work)
        return loss, self.around.seen

    def backward(self, loss: Tensor, last: bool) -> None:
        loss.backward()

    def step(self) -> tuple[float, bool]:
        norm: Any = torch.nn.utils.clip_grad_norm_(self.listed, self.clip or math.inf)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return float(norm.full_tensor()), True

    def of_terms(self, encoded: gradcache.Direct, output: Output) -> tuple[Gradients, bool]:
        return by_vectors(output), False

    def read(self, look: Callable[[Model], Any]) -> Any:
        with torch.no_grad():
            self.around(reading(self.model, look))
        return self.around.seen

    def held(self, parameter: Any) -> Tensor:
        return parameter.detach().to_local()

    def gradient(self, parameter: Any) -> Tensor | None:
        return None if parameter.grad is None else parameter.grad.to_local()

    def whole(self, tensor: Any) -> Tensor:
        return tensor.detach().full_tensor() if hasattr(tensor, "full_tensor") else tensor.detach()

    def moments(self) -> Any:
        kept = self.optimizer.state_dict()
        own = {place: {name: local(value) for name, value in of.items()} for place, of in kept["state"].items()}
        return gather.to_first(kept | {"state": own})

    def take_up(self, moments: Any) -> None:
        self.optimizer.load_state_dict(moments[gather.rank()])
        states: dict[Any, dict[str, Any]] = self.optimizer.state
        for parameter, kept in states.items():
            kept |= {name: gather.part_of(parameter, value) for name, value in kept.items() if name != "step"}


Shared: TypeAlias = Whole | Zero | Fsdp


class Around(nn.Module):
    """The model as a sharder sees it: whatever of a step reads weights happens inside of a call; a loss comes out."""

    def __init__(self, model: Model):
        super().__init__()
        self.model = model
        self.seen: Any = None

    def forward(self, work: Work) -> Tensor:
        loss, self.seen = work(self.model)
        return loss


def share(model: Model, cell: Cell, accelerator: Accelerator, speed: Speed = USUAL) -> Shared:
    """The model on its device, with its optimizer, in the way that the cell chooses."""
    if cell.training.sharding is None:
        return Whole(model, cell, accelerator, speed)
    if reason := deepspeed_file.misfit(cell.objective, cell.training):
        raise UserError(reason)
    return (Zero if deepspeed_file.named(cell.training) else Fsdp)(model, cell, accelerator)


def begin(training: Training) -> Accelerator:
    """A fresh Accelerator, which has joined the other processes of the cell."""
    on_gpu = torch.cuda.is_available()
    if training.sharding is not None:
        gather.join()
    if deepspeed_file.named(training):
        return with_deepspeed(training, on_gpu)
    return Accelerator(mixed_precision="no" if training.precision == "fp32" else training.precision, cpu=not on_gpu)


def with_deepspeed(training: Training, on_gpu: bool) -> Accelerator:
    import deepspeed
    from accelerate.utils import DeepSpeedPlugin, InitProcessGroupKwargs
    from transformers.integrations import unset_hf_deepspeed_config

    if not on_gpu:  # else it is compiled at first use, for 20 s, and leaves files in /dev/shm; gloo does the same
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    os.environ.setdefault("LOCAL_RANK", "0")  # which only launchers set, and DeepSpeed asks for
    deepspeed.init_distributed(gather.backend(), auto_mpi_discovery=False)
    assert training.sharding is not None
    recipe: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": 1,  # of no use here: the loss is a mean already, over the whole batch
        "gradient_accumulation_steps": 1,
        "gradient_clipping": training.clip,
        "zero_force_ds_cpu_optimizer": False,  # AdamW on the CPU too, where moments are offloaded
    }
    if training.precision != "fp32":
        recipe["torch_autocast"] = {"enabled": True, "dtype": "bfloat16", "lower_precision_safe_modules": []}
    settings = {"steps_per_print": 2**31} | deepspeed_file.settings(training.sharding) | recipe
    accelerator = Accelerator(
        mixed_precision="no",
        deepspeed_plugin=DeepSpeedPlugin(hf_ds_config=settings, zero3_init_flag=False),
        kwargs_handlers=[InitProcessGroupKwargs(backend=gather.backend())],  # else it counts one process on a CPU
    )
    unset_hf_deepspeed_config()  # else transformers splits an encoder while it loads, before its groups are known
    return accelerator


def bring_in_parts(module: nn.Module, accelerator: Accelerator) -> None:
    """Split weights one by one on their way to the device, which could not hold all of them."""
    from deepspeed.runtime.zero import Init

    Init(module=module, config_dict_or_path=accelerator.state.deepspeed_plugin.deepspeed_config)
    for buffer in module.buffers():
        buffer.data = buffer.data.to(accelerator.device)


def adamw(model: Model, cell: Cell, *, fused: bool = False) -> torch.optim.AdamW:
    return torch.optim.AdamW(tuning.groups(model, cell.training, cell.encoder.tune), fused=fused or None)


def listed(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def by_vectors(output: Output) -> Gradients:
    """Of a term, by the vectors and logits that it reads, where weights cannot be asked for: it shows a dead term."""
    reached = [tensor for tensor in gradcache.tensors(output) if tensor.requires_grad]
    return lambda value, _: torch.autograd.grad(value, reached, retain_graph=True, allow_unused=True)


@contextmanager
def counted_once(module: nn.Module) -> Iterator[None]:
    """Stage 3 fetches weights for as many backward passes as there were forward ones; a look is one more."""
    counters = ("applied_pre_backward_ref_cnt", "ds_grads_remaining")
    before = [
        (part, name, getattr(part, name)) for part in module.modules() for name in counters if hasattr(part, name)
    ]
    yield
    for part, name, count in before:
        setattr(part, name, count)


def reading(model: Model, look: Callable[[Model], Any]) -> Work:
    def work(encode: Callable[[Batch], Any]) -> tuple[Tensor, Any]:
        with torch.autocast(next(model.parameters()).device.type, enabled=False):
            return torch.zeros(()), look(model)

    return work


def local(value: Any) -> Any:
    return value.to_local() if hasattr(value, "to_local") else value
