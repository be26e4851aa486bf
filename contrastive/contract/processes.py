"""Check that two processes, each with a part of the batch, give the loss and the gradient of one."""

import os
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.spawn import spawn

from contrastive.config import registry
from contrastive.config.objective import Objective
from contrastive.contract import Broken, demand, examples_of
from contrastive.models.model import loss_modules
from contrastive.runs import plugins
from contrastive.training import gather
from contrastive.training.launch import LOOPBACK
from contrastive.training.terms import loss_terms
from contrastive.views.types import Guesses, Output, VectorGroup

SAMPLES, VIEWS, SIZE, CLASSES = 7, 2, 6, 3
WHOLE, SHARES = slice(0, 7), (slice(0, 4), slice(4, 7))  # of the samples, for each process: not equally many
LABELS = torch.tensor([0, 1, 2, 0, 1, 2, 0])
HIDDEN = torch.tensor([2, 0, 5, 1, 1, 3, 2])
SHARED = ("vectors", "targets", "negatives", "surprise", "sentences", "logits")  # what processes have shares of
PATIENCE = 60.0  # seconds


def equals_one_process(name: str, copy: str) -> None:
    alone = compute(name, WHOLE)
    for rank, found in enumerate(in_two_processes(loaded_share, name, copy)):
        compare(alone, found, SHARES[rank])


def loaded_share(name: str, copy: str) -> dict[str, Tensor]:
    plugins.load([copy])
    return compute(name, SHARES[gather.rank()])


def compare(alone: dict[str, Tensor], found: dict[str, Tensor], share: slice) -> None:
    """Compare what a process found with its share of the whole; training takes the mean of two processes."""
    advice = "compute it from the vectors alone, which are the whole batch in each process"
    demand(found.keys() == alone.keys(), f"gradients reach {', '.join(found)}, in one process {', '.join(alone)}")
    for key, expected in alone.items():
        rows, number = (expected[share], 2) if key in SHARED else (expected, 1)
        close = torch.allclose(found[key] / number, rows, atol=1e-10, rtol=1e-10)
        what = "value" if key == "loss" else f"gradient of {key}"
        demand(close, f"in two processes the {what} is not that of one: {advice}")


def tensors(name: str) -> dict[str, Tensor]:
    """Return a batch, as it arrives at the loss."""
    line = registry.loss_entries()[name]
    views = VIEWS if line.input_name == "logits" else line.facts.vectors or VIEWS
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    return {
        "vectors": drawn(SAMPLES, views, SIZE),
        "targets": drawn(SAMPLES, views, SIZE),
        "negatives": drawn(SAMPLES, SIZE),
        "guide": nn.functional.normalize(drawn(SAMPLES, 3, SIZE), dim=-1),
        "surprise": drawn(SAMPLES).abs(),
        "sentences": drawn(SAMPLES, VIEWS, SIZE),
        "logits": drawn(SAMPLES, VIEWS, CLASSES),
    }


def compute(name: str, share: slice) -> dict[str, Tensor]:
    """Compute a loss on the whole batch, of which this process has a share, and the gradients of its share."""
    own = {key: tensor[share].clone().requires_grad_() for key, tensor in tensors(name).items()}
    mask = torch.ones(own["vectors"].shape[:2], dtype=torch.bool)
    group = VectorGroup(own["vectors"], mask, own["targets"], own["negatives"])
    output = Output([group], own["sentences"], own["logits"], Guesses(own["surprise"], HIDDEN[share]))
    torch.manual_seed(0)
    objective = objective_of(name)
    modules = nn.ModuleDict(loss_modules(objective, SIZE)).double()
    for module in modules.values():
        fill_queue(module)
    known = {"labels": LABELS[share], "grades": LABELS[share].double(), "guide": tensors(name)["guide"][share]}
    together, known = gather.gather_batch(output, known)
    total = torch.stack(list(loss_terms(together, known, objective, modules).values())).sum()
    torch.autograd.backward(total)
    gradients = {key: leaf.grad for key, leaf in own.items() if leaf.grad is not None}
    heads = {key: p.grad for key, p in modules.named_parameters() if p.grad is not None}
    return {"loss": total.detach()} | gradients | heads


def objective_of(name: str, **settings: Any) -> Objective:
    """Return an objective of one loss."""
    entry = registry.loss_entries()[name]
    guide = {"guide": "file:guide.parquet"} if "guide" in entry.settings else {}
    return Objective.model_validate({"loss": name, **guide, **examples_of(entry), **settings})


def fill_queue(module: Any, size: int = SIZE) -> None:
    """Give a loss that keeps vectors of earlier batches some of them."""
    if hasattr(module, "remember"):
        module.remember(nn.functional.normalize(torch.randn(8, size), dim=-1))


def in_two_processes(function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Call a function in each of two processes that form a group on the CPU; return what each returned."""
    with tempfile.TemporaryDirectory() as folder:
        group = spawn(join, (folder, function, arguments), nprocs=2, join=False)
        end = time.monotonic() + PATIENCE
        while not group.join(1):
            if time.monotonic() > end:
                for process in group.processes:
                    process.kill()
                raise Broken(f"two processes wait for each other for more than {PATIENCE:.0f} seconds")
        return [torch.load(f"{folder}/{rank}.pt", weights_only=True) for rank in range(2)]


def join(rank: int, folder: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    os.environ |= LOOPBACK | {"CUDA_VISIBLE_DEVICES": ""}
    torch.set_num_threads(1)
    gather.init_process_group(f"{folder}/meeting", rank, 2)
    torch.save(function(*arguments), f"{folder}/{rank}.pt")
    gather.leave_process_group()
