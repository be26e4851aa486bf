"""How far a loss of the project is from its oracle on a random batch in float64."""

import inspect
from typing import Any

import torch
from torch import nn

from contrastive.contract.losses import SCALES, Difference, random_arguments, random_vectors
from contrastive.contract.losses import difference as compared
from contrastive.losses import LOSSES
from contrastive.training.terms import call_signature
from tests.contrastive.losses.oracles import ORACLES

SETTINGS: dict[str, tuple[Any, Any]] = {
    "temperature": (0.05, 0.5),
    "beta": (8.0, 0.5),
    "sigma": (0.5, 2.0),
    "redundancy": (0.0051, 0.5),
    "chunk": (None, 3),
    "guide_margin": (0.0, 0.3),
    "guide_margin_strategy": ("absolute", "relative"),
}
SIZES = {"guide_size": 7, "projector": 6, "projection": 5, "prototypes": 4, "clusters": 3, "queue": 9}


def difference(name: str, seed: int) -> Difference:
    """A seed decides shape, scale, mask, classes and settings; every third has each side's own defaults."""
    torch.manual_seed(seed)
    tensor = random_vectors(name, SCALES[seed // 3 % 3])
    loss = made(name, tensor.shape[-1]) if isinstance(LOSSES[name], type) else LOSSES[name]
    given = random_arguments(tensor) | {"module": loss}
    wanted = call_signature(LOSSES[name])[1]
    unknown = set(wanted) - given.keys() - SETTINGS.keys()
    assert not unknown, f"{name} reads {', '.join(unknown)}: give two values in SETTINGS, or a tensor here"
    if seed % 3:
        given |= {setting: values[seed % 3 - 1] for setting, values in SETTINGS.items() if setting in wanted}
    return compared(loss, ORACLES[name][1], tensor, given)


def made(name: str, size: int) -> nn.Module:
    """A loss with weights of its own, each of them moved, so that copies differ; its queue filled in part."""
    loss: Any = LOSSES[name]
    sizes = {key: value for key, value in SIZES.items() if key in inspect.signature(loss).parameters}
    if name == "moco" and torch.rand(()) < 0.5:
        del sizes["projector"]  # its first version
    module = loss(size, **sizes).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    if name == "moco":
        module.keys[:5] = torch.nn.functional.normalize(torch.randn_like(module.keys[:5]), dim=-1)
        module.written.fill_(5)
    if name == "swav":
        module.steps.fill_(100)  # the prototypes no longer rest
    return module
