"""Random batches in float64, and how far a loss is from its oracle on one of them."""

import inspect
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from contrastive.config import registry
from contrastive.losses import LOSSES
from contrastive.training.terms import call_signature
from tests.contrastive.losses.oracles import ORACLES

SCALES = (0.03, 1.0, 30.0)  # of a batch's vectors; within it their lengths differ by some e
SETTINGS: dict[str, tuple[Any, Any]] = {
    "temperature": (0.05, 0.5),
    "beta": (8.0, 0.5),
    "sigma": (0.5, 2.0),
    "redundancy": (0.0051, 0.5),
    "chunk": (None, 3),
}
SIZES = {"projector": 6, "projection": 5, "prototypes": 4, "clusters": 3, "queue": 9}


class Difference(NamedTuple):
    value: float
    gradient: float  # by the vectors, and by the loss's own weights


def difference(name: str, seed: int) -> Difference:
    """A seed decides shape, scale, mask, classes and settings; every third has each side's own defaults."""
    loss, (_, oracle) = LOSSES[name], ORACLES[name]
    torch.manual_seed(seed)
    tensor = vectors(name, SCALES[seed // 3 % 3])
    module = made(name, tensor.shape[-1]) if isinstance(loss, type) else None
    given: dict[str, Any] = {
        "mask": mask(tensor),
        "labels": labels(tensor),
        "targets": torch.randn_like(tensor),
        "negatives": torch.randn(len(tensor), tensor.shape[-1], dtype=torch.float64, requires_grad=True),
        "hidden": torch.randint(1, 9, (len(tensor),)),
    }
    wanted = call_signature(loss)[1]
    unknown = set(wanted) - given.keys() - SETTINGS.keys()
    assert not unknown, f"{name} reads {', '.join(unknown)}: give two values in SETTINGS, or a tensor here"
    if seed % 3:
        given |= {setting: values[seed % 3 - 1] for setting, values in SETTINGS.items() if setting in wanted}
    if "mask" not in wanted:
        given["mask"] = torch.ones_like(given["mask"])
    expected = call(oracle, tensor, given | {"module": module})  # before the loss, which may change what it keeps
    if given["mask"].all():  # the oracle has a mask always, the loss none where nothing is masked
        del given["mask"]
    value = call(loss if module is None else module, tensor, given)
    inputs = [tensor, *(given[name] for name in wanted if name in given), *(module.parameters() if module else ())]
    by = [it for it in inputs if isinstance(it, Tensor) and it.requires_grad]
    ours, theirs = (torch.autograd.grad(it, by, allow_unused=True, materialize_grads=True) for it in (value, expected))
    apart = [float((a - b).abs().max()) for a, b in zip(ours, theirs, strict=True)]
    return Difference(float((value - expected).detach().abs()), float(torch.tensor(apart).amax()))  # keeps NaN


def call(function: Any, tensor: Tensor, given: dict[str, Any]) -> Tensor:
    return function(tensor, **{name: given[name] for name in call_signature(function)[1] if name in given})


def vectors(name: str, scale: float) -> Tensor:
    """In the shape that the loss's annotation asks for."""
    line = registry.loss_entries()[name]
    middle = str(line.facts.vectors or ("v" if line.input_name == "views" else "p"))
    shape = {"views": ["n", middle, "d"], "logits": ["n", middle, "c"], "surprise": ["n"]}[line.input_name]
    labelled = "labels" in call_signature(LOSSES[name])[1]
    size = {"n": torch.randint(3, 9, ()), "v": torch.randint(1 if labelled else 2, 5, ()),
            "p": torch.randint(1, 3, ()), "d": torch.randint(2, 9, ()), "c": torch.randint(2, 6, ())}  # fmt: skip
    drawn = torch.randn([int(axis) if axis.isdigit() else int(size[axis]) for axis in shape], dtype=torch.float64)
    lengths = torch.randn(len(drawn), *[1] * (drawn.ndim - 1), dtype=torch.float64).exp()
    return (scale * drawn * lengths).requires_grad_()


def mask(tensor: Tensor) -> Tensor:
    """All or most. Two samples are whole, and of one class: the contract has the batch without any positive."""
    kept = torch.rand(tensor.shape[:2]) < (0.7 if torch.rand(()) < 0.6 else 1.0)
    return kept.index_fill(0, torch.arange(2), True)


def labels(tensor: Tensor) -> Tensor:
    """One to four classes, and no more than there are logits."""
    classes = min(int(torch.randint(1, 5, ())), tensor.shape[-1])
    return torch.randint(0, classes, (len(tensor),)).index_fill(0, torch.arange(2), 0)


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
