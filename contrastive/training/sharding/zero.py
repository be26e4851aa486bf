"""Zero: DeepSpeed's ZeRO. Stage 1 splits what AdamW keeps, 2 also the gradients, 3 also the weights."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from contrastive.config.cell import Cell, Training
from contrastive.grid import deepspeed_file
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


class Zero:
    """A model whose training state DeepSpeed splits."""

    def __init__(self, model: Model, cell: Cell, accelerator: Accelerator):
        self.model, self.step_module = model, StepModule(model)
        self.splits_weights = deepspeed_file.splits_weights(cell.training)
        self.optimizer = adamw(model, cell)
        self.listed, self.device = optimizer_parameters(self.optimizer), accelerator.device
        self.count = sum(parameter.numel() for parameter in self.listed)
        if self.splits_weights:
            split_weights(self.step_module, accelerator)
        prepared, _ = accelerator.prepare(self.step_module, self.optimizer)
        self.engine = prepared

    def forward(self, work: Work) -> tuple[Tensor, Any]:
        loss = self.engine(work)
        return loss, self.step_module.result

    def backward(self, loss: Tensor, last: bool) -> None:
        self.engine.set_gradient_accumulation_boundary(last)
        self.engine.backward(loss)

    def step(self) -> tuple[float, bool]:
        self.engine.step()
        return float(self.engine.get_global_grad_norm()), True

    def term_gradients(self, encoded: gradcache.Direct, output: Output) -> tuple[Gradients, bool]:
        if not self.splits_weights:
            return gather.average_gradients(encoded.gradients), True
        gradients = vector_gradients(output)

        def counted_gradients(value: Tensor, parameters: list[nn.Parameter]) -> Any:
            with backward_counts_kept(self.step_module):
                return gradients(value, parameters)

        return counted_gradients, False

    def read(self, reader: ModelReader) -> Any:
        with torch.no_grad():
            self.engine(reading_work(self.model, reader))
        return self.step_module.result

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
