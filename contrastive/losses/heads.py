"""Projector and predictor heads of losses, trained with the cell and discarded afterwards."""

from itertools import pairwise

from torch import nn


def mlp(*widths: int, norm: bool = True, bias: bool = True) -> nn.Sequential:
    """Return linear layers of these widths with ReLU between them, and batch norm before each ReLU.

    Layers before a batch norm have no bias, since it would have no effect. Pass `bias=False` to leave it out of the
    last layer too, for losses that subtract the batch mean.
    """
    layers: list[nn.Module] = []
    for number, (before, after) in enumerate(pairwise(widths), start=1):
        last = number == len(widths) - 1
        layers.append(nn.Linear(before, after, bias=bias if last else not norm))
        if not last:
            layers += [nn.BatchNorm1d(after), nn.ReLU()] if norm else [nn.ReLU()]
    return nn.Sequential(*layers)
