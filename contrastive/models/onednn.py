"""Products by oneDNN on a CPU: equal to PyTorch's own but for rounding.

PyTorch leaves products of float32 on a CPU to MKL, which uses half of what a processor can do that Intel has not made.
"""

from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from contrastive.runs import provenance


class Product(torch.autograd.Function):
    """x Wᵀ + b with its gradient."""

    @staticmethod
    def forward(
        context: Any, x: Float[Tensor, "*n i"], weight: Float[Tensor, "o i"], bias: Float[Tensor, " o"] | None
    ) -> Float[Tensor, "*n o"]:
        x = x.contiguous()  # of rows that lie apart, oneDNN's product has been seen not to end
        of_x, of_weight, _ = context.needs_input_grad
        context.save_for_backward(x if of_weight else None, weight if of_x else None)  # as a plain product keeps them
        return product(x, weight, bias)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = context.saved_tensors
        of_x, of_weight, of_bias = context.needs_input_grad
        gradient = gradient.contiguous()
        return (
            product(gradient, weight.t()) if of_x else None,
            product(as_matrix(gradient).t(), as_matrix(x).t()) if of_weight else None,
            as_matrix(gradient).sum(0) if of_bias else None,
        )


def as_matrix(x: Float[Tensor, "*n i"]) -> Float[Tensor, "m i"]:
    return x.reshape(-1, x.shape[-1])


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


class Linear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        plain = x.dtype != torch.float32 or x.device.type != "cpu" or torch.is_autocast_enabled("cpu") or not x.numel()
        return super().forward(x) if plain else Product.apply(x, self.weight, self.bias)


@cache
def onednn_pays() -> bool:
    """By the maker and not by the clock, so that a machine always computes the same."""
    return torch.backends.mkldnn.is_available() and "Intel" not in provenance.processor()


def quicken(model: nn.Module) -> None:
    """Let a model use oneDNN where it pays.

    A module's class changes in place, since a new module would lose its hooks, and its other places in the model.
    """
    if onednn_pays():
        for module in model.modules():
            if type(module) is nn.Linear:
                module.__class__ = Linear
