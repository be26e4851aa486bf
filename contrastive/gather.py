"""Several processes, one batch: what each has computed, brought together with its gradient.

The loss is computed by every process on the whole batch. Its gradient reaches each process's own rows multiplied by the
number of processes, since the launcher takes the mean of the processes' gradients afterwards. Nothing else in the
science knows of processes; with one of them everything here gives back what it was given.
"""

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor

from contrastive.views.types import Group, Guesses, Output


def processes() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def whole_batch(output: Output, labels: Int[Tensor, " n"]) -> tuple[Output, Int[Tensor, " m"]]:
    """The output and labels of all processes, in the order of their ranks."""
    if processes() == 1:
        return output, labels
    logits = None if output.logits is None else rows(output.logits)
    guesses = output.guesses and Guesses(rows(output.guesses.surprise), rows(output.guesses.hidden))
    groups = [_group(group) for group in output.groups]
    return Output(groups, rows(output.sentences), logits, guesses), rows(labels)


def _group(group: Group) -> Group:
    """A group of all processes; where one has more vectors a text, the others' missing ones are masked."""
    most = int(_all(torch.tensor([group.mask.shape[1]], device=group.mask.device)).max())
    more = most - group.mask.shape[1]
    vectors, mask = F.pad(group.vectors, (0, 0, 0, more)), F.pad(group.mask, (0, more))
    targets = None if group.targets is None else rows(F.pad(group.targets, (0, 0, 0, more)))
    negatives = None if group.negatives is None else rows(group.negatives)
    return Group(rows(vectors), rows(mask), targets, negatives)


def rows(tensor: Tensor) -> Tensor:
    """The rows of all processes, which may have different numbers of them."""
    counts = _all(torch.tensor([len(tensor)], device=tensor.device)).tolist()
    padded = F.pad(tensor, (0, 0) * (tensor.ndim - 1) + (0, max(counts) - len(tensor)))
    gathered = _Gather.apply(padded) if tensor.requires_grad else _all(padded)
    parts = gathered.split(max(counts))
    return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, tensor: Tensor) -> Tensor:
        return _all(tensor)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        total = gradient.contiguous()
        dist.all_reduce(total)
        return total.chunk(dist.get_world_size())[dist.get_rank()]


def _all(tensor: Tensor) -> Tensor:
    """Equally shaped tensors of all processes, one below the other."""
    content = tensor.detach().contiguous()
    as_numbers = content.byte() if content.dtype == torch.bool else content
    parts = [torch.empty_like(as_numbers) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, as_numbers)
    return torch.cat(parts).to(tensor.dtype)
