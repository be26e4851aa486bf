"""Call the losses of an objective with their settings on a model's output, and compute their smallest possible
values."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from contrastive.config import registry
from contrastive.config.objective import Objective
from contrastive.errors import UserError
from contrastive.losses import LOSSES
from contrastive.losses.similarity import least
from contrastive.views.types import Output, VectorGroup


def loss_terms(
    output: Output, given: Mapping[str, Tensor], objective: Objective, modules: nn.ModuleDict
) -> dict[str, Float[Tensor, ""]]:
    """Compute every term of the objective, unweighted. Terms on views are averaged over the output's groups (layers),
    and summed over the widths of `matryoshka`.

    `given`: what is known of the texts, such as `labels`. `modules` are the losses that have a state or heads of their
    own.
    """
    values_of_terms = {}
    for name in objective.term_weights():
        loss = modules[name] if name in modules else LOSSES[name]
        first_parameter, keywords = call_signature(LOSSES[name])
        if first_parameter == "logits":
            assert output.logits is not None, f"{name} reads logits, but this model has no head"
            values_of_terms[name] = loss(output.logits, **loss_arguments(name, keywords, given, None, objective))
        elif first_parameter == "surprise":
            assert output.guesses is not None, f"{name} reads guesses of hidden words, but this model makes none"
            values_of_terms[name] = loss(output.guesses.surprise, hidden=output.guesses.hidden)
        else:
            values = [
                loss(each.vectors, **loss_arguments(name, keywords, given, each, objective))
                for group in output.groups
                for each in nested(group, objective.matryoshka or ())
            ]
            values_of_terms[name] = sum(values[1:], values[0]) / len(output.groups)
    return values_of_terms


def loss_floors(output: Output, labels: Int[Tensor, " n"], objective: Objective) -> dict[str, Float[Tensor, ""]]:
    """Compute the smallest value that each term could have on this batch, for losses with such a floor."""
    floors = {}
    for name in objective.term_weights():
        if (positives := registry.loss_entries()[name].facts.positives) is not None:
            values = [least(positives, labels, group.mask) for group in output.groups]
            widths = 1 + len(objective.matryoshka or ())
            floors[name] = widths * sum(values[1:], values[0]) / len(values)
    return floors


def nested(group: VectorGroup, widths: Sequence[int]) -> Iterator[VectorGroup]:
    """Yield the vectors of a group whole, then their first numbers for each width."""
    yield group
    size = group.vectors.shape[-1]
    for width in widths:
        if width >= size:
            raise UserError(f"matryoshka has the width {width}, but vectors have {size} numbers: list smaller widths")
        cut = {
            name: tensor[..., :width]
            for name in ("vectors", "targets", "negatives")
            if (tensor := getattr(group, name)) is not None
        }
        yield replace(group, **cut)


def compares_vectors(objective: Objective) -> bool:
    """Return whether a term reads vectors of the view, and not only logits or guesses."""
    return any(call_signature(LOSSES[name])[0] not in ("logits", "surprise") for name in objective.term_weights())


@cache
def call_signature(loss: Callable[..., Any]) -> tuple[str, tuple[str, ...]]:
    """Return the name of a loss's first parameter, and the names of its keyword-only parameters."""
    called = getattr(loss, "forward", loss)
    parameters = [p for p in inspect.signature(called).parameters.values() if p.name != "self"]
    return parameters[0].name, tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


def loss_arguments(
    loss: str, keywords: tuple[str, ...], given: Mapping[str, Tensor], group: VectorGroup | None, objective: Objective
) -> dict[str, object]:
    """Return the keyword arguments that a loss names. Raise TypeError if the cell cannot provide one of them."""
    available: dict[str, object] = {name: getattr(objective, name) for name in Objective.model_fields}
    available = {name: value for name, value in available.items() if value is not None}  # None: the loss's default
    available |= given
    if group is not None:
        available["mask"] = group.mask
        optional = {"targets": group.targets, "negatives": group.negatives}
        available |= {name: tensor for name, tensor in optional.items() if tensor is not None}
    provided = {*available, *Objective.model_fields, *registry.loss_entries()[loss].defaults}
    missing = [name for name in keywords if name not in provided]
    if missing:
        raise TypeError(f"the loss {loss} has parameters that no cell provides: {', '.join(missing)}")
    return {name: available[name] for name in keywords if name in available}
