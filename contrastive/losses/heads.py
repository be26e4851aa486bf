"""Heads that a loss brings with it: projectors and predictors, trained with the cell and thrown away after it."""

from itertools import pairwise

from torch import nn


def mlp(*widths: int, norm: bool = True, bias: bool = True) -> nn.Sequential:
    """Linear layers of these widths with ReLU between them, and batch norm before each ReLU.

    A bias below a batch norm would train nothing, so there is none; nor in the last layer, where the loss takes the
    mean over the batch away (`bias=False`).
    """
    layers: list[nn.Module] = []
    for number, (before, after) in enumerate(pairwise(widths), start=1):
        last = number == len(widths) - 1
        layers.append(nn.Linear(before, after, bias=bias if last else not norm))
        if not last:
            layers += [nn.BatchNorm1d(after), nn.ReLU()] if norm else [nn.ReLU()]
    return nn.Sequential(*layers)
