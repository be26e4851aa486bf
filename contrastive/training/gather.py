"""Gather what several processes computed on one batch, with its gradient; torch.distributed is used here only.

Every process computes the loss on the whole batch. The gradient of a process's own rows is multiplied by the number of
processes, since DDP averages the processes' gradients afterwards. Apart from sharding, nothing else knows of processes;
in a single process every function here returns its input.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from contrastive.training.gradcache import padded_group
from contrastive.views.types import Guesses, Output, VectorGroup

Gradients: TypeAlias = Callable[[Tensor, list[nn.Parameter]], Sequence[Tensor | None]]


def process_count() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    return dist.get_rank() if process_count() > 1 else 0


def init_process_group(meeting: str, rank: int, count: int) -> None:
    """Join the other processes of a job at a file that all see, or at tcp://HOST:PORT, a port of the first one."""
    url = meeting if "://" in meeting else f"file://{meeting}"
    dist.init_process_group(backend(), init_method=url, rank=rank, world_size=count)


def ensure_process_group() -> None:
    """Join the launcher's process group if there is one, else form a group of one, which sharding needs."""
    if dist.is_initialized():
        return
    if "RANK" in os.environ:
        dist.init_process_group(backend())
    else:
        store = dist.HashStore()  # type: ignore[attr-defined]
        dist.init_process_group(backend(), store=store, rank=0, world_size=1)


def backend() -> str:
    return "nccl" if torch.cuda.is_available() else "gloo"


def leave_process_group() -> None:
    """Leave the group once all processes have come so far."""
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


def gather_objects(item: Any) -> list[Any]:
    """Return an object of each process, ordered by rank."""
    items = [item] * process_count()
    if process_count() > 1:
        dist.all_gather_object(items, item)
    return items


def gather_to_first(item: Any) -> list[Any] | None:
    """Return an object of each process, ordered by rank, in the first process, and None in the others."""
    if process_count() == 1:
        return [item]
    items = [None] * process_count() if rank() == 0 else None
    dist.gather_object(item, items)
    return items


def any_rank(flags: list[bool]) -> list[bool]:
    """Return for each flag whether any process sets it; all processes pass the same flags in the same order."""
    if process_count() == 1 or not flags:
        return flags
    device = "cuda" if torch.cuda.is_available() else "cpu"
    raised = torch.tensor(flags, dtype=torch.uint8, device=device)
    dist.all_reduce(raised, dist.ReduceOp.MAX)
    return [bool(flag) for flag in raised.tolist()]


def average_gradients(gradients: Gradients) -> Gradients:
    """Return a function whose gradients are averaged over the processes, as DDP does; each process must call it."""
    if process_count() == 1:
        return gradients

    def averaged(value: Tensor, parameters: list[nn.Parameter]) -> list[Tensor | None]:
        averages: list[Tensor | None] = []
        for gradient, parameter in zip(gradients(value, parameters), parameters, strict=True):
            total = torch.zeros_like(parameter) if gradient is None else gradient.clone()
            dist.all_reduce(total)
            averages.append(total / process_count())
        return averages

    return averaged


def shard_parameters(whole: nn.Module, blocks: list[nn.Module], device: torch.device, reshard: bool) -> None:
    """Split the weights over the processes (FSDP); `reshard` frees a block's weights after its forward pass."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(device.type, (process_count(),))
    for block in blocks:
        fully_shard(block, mesh=mesh, reshard_after_forward=reshard)
    fully_shard(whole, mesh=mesh)


def local_shard(parameter: Any, shard: Tensor) -> Tensor:
    """Wrap this process's part of a tensor that is split like `parameter`."""
    from torch.distributed.tensor import DTensor

    like = {"shape": parameter.shape, "stride": parameter.stride()}
    return DTensor.from_local(shard, parameter.device_mesh, parameter.placements, run_check=False, **like)


def exclude_from_ddp(model: nn.Module, prefix: str) -> None:
    """Exclude these parameters from DDP: every rank computes their full gradient already."""
    names = [name for name in model.state_dict() if name.startswith(prefix)]
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, names)


def gather_batch(output: Output, given: dict[str, Tensor]) -> tuple[Output, dict[str, Tensor]]:
    """Return the output and what is known of the texts of all processes, ordered by rank."""
    if not dist.is_initialized():
        return output, given
    logits = None if output.logits is None else gather_rows(output.logits)
    guesses = output.guesses and Guesses(gather_rows(output.guesses.surprise), gather_rows(output.guesses.hidden))
    groups = [_group(group) for group in output.groups]
    known = {name: gather_rows(tensor) for name, tensor in given.items()}
    return Output(groups, gather_rows(output.sentences), logits, guesses), known


def _group(group: VectorGroup) -> VectorGroup:
    """Gather a group; where another process has more vectors per text, pad this one's and mask the padding."""
    width = int(_all_gather(torch.tensor([group.mask.shape[1]], device=group.mask.device)).max())
    group = padded_group(group, width)
    targets = None if group.targets is None else gather_rows(group.targets)
    negatives = None if group.negatives is None else gather_rows(group.negatives)
    return VectorGroup(gather_rows(group.vectors), gather_rows(group.mask), targets, negatives)


def gather_rows(tensor: Tensor) -> Tensor:
    """Return the rows of all processes, which may have different numbers of them."""
    counts = _all_gather(torch.tensor([len(tensor)], device=tensor.device)).tolist()
    padded = F.pad(tensor, (0, 0) * (tensor.ndim - 1) + (0, max(counts) - len(tensor)))
    gathered = _Gather.apply(padded) if tensor.requires_grad else _all_gather(padded)
    parts = gathered.split(max(counts))
    return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, tensor: Tensor) -> Tensor:
        return _all_gather(tensor)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        total = gradient.contiguous()
        dist.all_reduce(total)
        return total.chunk(dist.get_world_size())[dist.get_rank()]


def _all_gather(tensor: Tensor) -> Tensor:
    """Concatenate equally shaped tensors of all processes, without gradient."""
    content = tensor.detach().contiguous()
    as_numbers = content.byte() if content.dtype == torch.bool else content
    parts = [torch.empty_like(as_numbers) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, as_numbers)
    return torch.cat(parts).to(tensor.dtype)
