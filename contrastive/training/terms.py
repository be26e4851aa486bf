"""From a model's output to the terms of the objective."""

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from contrastive.config import registry
from contrastive.config.objective import Objective
from contrastive.losses import LOSSES
from contrastive.losses.similarity import least
from contrastive.views.types import Output, VectorGroup


def loss_terms(
    output: Output, labels: Int[Tensor, " n"], objective: Objective, modules: nn.ModuleDict
) -> dict[str, Float[Tensor, ""]]:
    """Every term of the objective, unweighted. A term on views is averaged over the groups (layers) of the output.

    `modules` are the losses that have a state or heads of their own.
    """
    values_of_terms = {}
    for name in objective.terms():
        loss = modules[name] if name in modules else LOSSES[name]
        first, wanted = call_signature(LOSSES[name])
        if first == "logits":
            assert output.logits is not None, f"{name} reads logits, and this model has no head"
            values_of_terms[name] = loss(output.logits, **loss_arguments(name, wanted, labels, None, objective))
        elif first == "surprise":
            assert output.guesses is not None, f"{name} reads guesses of hidden words, and this model makes none"
            values_of_terms[name] = loss(output.guesses.surprise, hidden=output.guesses.hidden)
        else:
            values = [
                loss(group.vectors, **loss_arguments(name, wanted, labels, group, objective)) for group in output.groups
            ]
            values_of_terms[name] = sum(values[1:], values[0]) / len(values)
    return values_of_terms


def loss_floors(output: Output, labels: Int[Tensor, " n"], objective: Objective) -> dict[str, Float[Tensor, ""]]:
    """The smallest value that each term could have on this batch, where the loss has such a floor."""
    lowest = {}
    for name in objective.terms():
        if (positives := registry.loss_entries()[name].facts.positives) is not None:
            values = [least(positives, labels, group.mask) for group in output.groups]
            lowest[name] = sum(values[1:], values[0]) / len(values)
    return lowest


@cache
def call_signature(loss: Callable[..., Any]) -> tuple[str, tuple[str, ...]]:
    """What a call of a loss reads: the name of its first parameter, and its keyword-only ones."""
    called = getattr(loss, "forward", loss)
    parameters = [p for p in inspect.signature(called).parameters.values() if p.name != "self"]
    return parameters[0].name, tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


def loss_arguments(
    loss: str, wanted: tuple[str, ...], labels: Int[Tensor, " n"], group: VectorGroup | None, objective: Objective
) -> dict[str, object]:
    """The arguments that a loss names, and nothing else; naming what a cell cannot give is an error."""
    available: dict[str, object] = {name: getattr(objective, name) for name in Objective.model_fields}
    available = {name: value for name, value in available.items() if value is not None}  # else the loss's own default
    available["labels"] = labels
    if group is not None:
        available["mask"] = group.mask
        others = {"targets": group.targets, "negatives": group.negatives}
        available |= {name: tensor for name, tensor in others.items() if tensor is not None}
    missing = [name for name in wanted if name not in available and name not in Objective.model_fields]
    if missing:
        raise TypeError(f"the loss {loss} asks for {', '.join(missing)}, which a cell does not have")
    return {name: available[name] for name in wanted if name in available}
